//! One who opens a stream and does not read: cut with a code after a while, without anybody else waiting, and told
//! everything else when they come back.

use base::testing::eventually;
use dev::tail::Tail;
use dev::town::Town;
use model::id::ProjectId;
use model::signal::Code;

use super::{Person, hears, message, project, seats};
use crate::EXE;

/// Together far more than the buffers of a connection hold.
const EVENTS: i32 = 800;
const EVENT_BYTES: i32 = 20_000;

/// As many events as it takes, written as nobody else would.
pub(super) async fn flood(town: &Town, project: ProjectId, events: i32, event_bytes: i32) {
    let rows = sqlx::query(
        "insert into outbox (id, kind, subject_kind, subject_id, data, correlation_id, created_at)
         select gen_random_uuid(), 'quota.changed', 'project', $1, jsonb_build_object('n', n, 'room', repeat('x', $3)),
                gen_random_uuid(), now()
         from generate_series(1, $2) n order by n",
    );
    let rows = rows.bind(project.to_string()).bind(events).bind(event_bytes);
    rows.execute(town.platform.apps[0].db.bookkeeping())
        .await
        .expect("written");
}

pub(super) async fn number(tail: &mut Tail) -> Option<i64> {
    hears(tail).await.data["n"].as_i64()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_is_cut_with_a_code_and_nobody_else_waits() {
    base::metrics::install(&[]);
    let town = Town::start(EXE).await;
    let (ada, bob) = (
        Person::of(&town, "ada-t", &[]).await,
        Person::of(&town, "bob-t", &[]).await,
    );
    let hers = project(&town, "hers", &ada).await;
    seats(&ada.at(&town, 0), hers, "bob-t", "viewer").await;
    let mut slow = ada.listens(&town, 0, "/v1/events?types=quota.*", None).await;
    let mut quick = bob.listens(&town, 0, "/v1/events?types=quota.*", None).await;
    flood(&town, hers, EVENTS, EVENT_BYTES).await;
    for n in 1..=i64::from(EVENTS) {
        assert_eq!(number(&mut quick).await, Some(n), "everything, in order");
    }
    eventually("the slow one is let go", async || {
        let ended = r#"gpuaas_http_streams_ended_total{code="stream_too_slow"}"#;
        let text = base::metrics::render();
        text.contains(ended).then_some(()).ok_or("not yet")
    })
    .await;

    let mut heard = 0;
    let code = loop {
        let one = message(&mut slow).await.expect("a last word");
        let data: serde_json::Value = serde_json::from_str(&one.data).expect("JSON");
        if one.event == "end" {
            break data["code"].clone();
        }
        heard += 1;
        assert_eq!(data["data"]["n"], heard, "no gap before the end");
    };
    assert_eq!(code, Code::StreamTooSlow.as_str());
    assert!(heard < i64::from(EVENTS), "cut before everything was told");
    assert_eq!(message(&mut slow).await, None, "nothing after the last word");
    let place = slow.last_id().expect("a place").to_owned();
    let mut again = ada.listens(&town, 0, "/v1/events?types=quota.*", Some(&place)).await;
    for n in heard + 1..=i64::from(EVENTS) {
        assert_eq!(number(&mut again).await, Some(n), "the rest, in order");
    }
    // The one who read went on all the while.
    flood(&town, hers, EVENTS, EVENT_BYTES).await;
    assert_eq!(number(&mut quick).await, Some(1));
    town.end().await;
}
