//! Used time is what nodes have signed for: it goes on over a short silence, and ends before a long one, before another life
//! of the host, and before a loss. What comes after is a span of its own.

use super::*;

const READY_S: i64 = 180;

impl Rows {
    /// One that is active since `READY_S`.
    async fn active() -> Self {
        let rows = Self::new().await;
        rows.does(&Rows::allocation(1, 1)).await;
        for step in [AllocationState::Provisioning, AllocationState::Active] {
            rows.does(&Rows::to(1, step)).await;
        }
        rows
    }

    /// A list of this second, by a host that was started for the n-th time.
    async fn proves(&self, at_s: i64, boot: u32) {
        let at = format!("{NOW} + interval '{at_s} seconds'");
        self.does(&format!("select usage_proven({}, {at}, 'boot-{boot}')", id(1)))
            .await;
    }

    async fn loses(&self, at_s: i64) {
        let at = format!("{NOW} + interval '{at_s} seconds'");
        self.does(&format!("select usage_lost({}, {at}, 'power_lost')", id(1)))
            .await;
    }

    /// From when to when, how far that is proved, and why it has ended, oldest first.
    async fn spans(&self) -> Vec<(Option<i64>, Option<i64>, i64, Option<String>)> {
        let since = |what: &str| format!("extract(epoch from {what} - {NOW})::bigint");
        let sql = format!(
            "select {}, {}, {}, end_reason from usage_span order by proven_until",
            since("lower(span)"),
            since("upper(span)"),
            since("proven_until")
        );
        let query = sqlx::query_as(AssertSqlSafe(sql));
        query.fetch_all(&self.pool).await.expect("spans")
    }
}

fn ended(from: i64, to: i64, why: &str) -> (Option<i64>, Option<i64>, i64, Option<String>) {
    (Some(from), Some(to), to, Some(why.to_owned()))
}

fn open(from: i64, proven: i64) -> (Option<i64>, Option<i64>, i64, Option<String>) {
    (Some(from), None, proven, None)
}

#[tokio::test]
async fn a_short_silence_is_used_time_and_a_long_one_is_not() {
    let rows = Rows::active().await;
    rows.proves(READY_S + 299, 1).await;
    rows.proves(READY_S + 599, 1).await;
    assert_eq!(rows.spans().await, [open(READY_S, READY_S + 599)]);
    rows.proves(READY_S + 900, 1).await;
    let both = [
        ended(READY_S, READY_S + 599, "unproven"),
        open(READY_S + 900, READY_S + 900),
    ];
    assert_eq!(rows.spans().await, both);
    // Nothing older counts, and the same again changes nothing.
    for at_s in [READY_S + 700, READY_S + 900] {
        rows.proves(at_s, 1).await;
        assert_eq!(rows.spans().await, both);
    }
}

#[tokio::test]
async fn another_life_of_the_host_and_a_loss_end_a_span_at_its_last_proof() {
    let rows = Rows::active().await;
    rows.proves(240, 1).await;
    rows.proves(300, 2).await;
    rows.proves(330, 2).await;
    rows.loses(330).await;
    let first = ended(READY_S, 240, "power_lost");
    assert_eq!(
        rows.spans().await,
        [first.clone(), open(300, 330)],
        "what is proved is not lost"
    );
    rows.loses(360).await;
    rows.loses(390).await;
    let second = ended(300, 330, "power_lost");
    assert_eq!(rows.spans().await, [first.clone(), second.clone()]);
    rows.proves(420, 2).await;
    rows.proves(450, 2).await;
    assert_eq!(rows.spans().await, [first, second, open(420, 450)]);
}

#[tokio::test]
async fn what_was_given_back_begins_no_other_span() {
    let rows = Rows::active().await;
    rows.proves(200, 1).await;
    rows.does(&Rows::to(1, AllocationState::Releasing)).await;
    rows.proves(330, 1).await;
    let whole = [(Some(READY_S), Some(270), 270, Some("asked for".to_owned()))];
    assert_eq!(rows.spans().await, whole, "proved to its end, and not past it");
    rows.proves(900, 2).await;
    rows.loses(900).await;
    assert_eq!(rows.spans().await, whole);
}
