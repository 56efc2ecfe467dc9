//! What a node signs decides what is used: a guest that is off by itself or gone is not, until it runs again; one that its
//! tenant has switched off is.

use super::*;

/// Until when it is proved, and why it has ended, oldest first.
async fn spans(market: &Market, id: AllocationId) -> Vec<(f64, Option<String>)> {
    sqlx::query_as(
        "select extract(epoch from proven_until)::float8, end_reason from usage_span where allocation_id = $1 order by 1",
    )
    .bind(id.uuid())
    .fetch_all(market.town.platform.apps[0].db.read())
    .await
    .expect("spans")
}

/// A list of this moment by a node that says nothing itself any more, with its guest like this; none is gone, lease and all.
async fn list(market: &Market, power: Option<&str>) {
    let slices = match power {
        Some(power) => format!("jsonb_set(holds, '{{slices,0,power}}', '\"{power}\"')"),
        None => "jsonb_set(holds, '{slices}', '[]')".to_owned(),
    };
    let written = format!("update node_held set at = now(), received_at = now(), holds = {slices}");
    let pool = market.town.platform.apps[0].db.bookkeeping();
    let done = sqlx::query(sqlx::AssertSqlSafe(written)).execute(pool).await;
    assert_eq!(done.expect("written").rows_affected(), 1);
}

/// A node says the same again and again; one list alone may be of the very second in which a span begins.
async fn said_again(market: &Market) {
    let again = sqlx::query("update node_held set at = now(), received_at = now()");
    let pool = market.town.platform.apps[0].db.bookkeeping();
    again.execute(pool).await.expect("said again");
}

/// Why each span but the last has ended; the last one is open, or has ended for this.
async fn until_ends(market: &Market, id: AllocationId, ends: &[Option<&str>]) {
    eventually("what is used is as the list has it", async || {
        said_again(market).await;
        let spans = spans(market, id).await;
        let seen: Vec<Option<&str>> = spans.iter().map(|(_, end)| end.as_deref()).collect();
        (seen == ends).then_some(()).ok_or(spans.clone())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_is_lost_is_used_again_when_it_runs_again() {
    let market = Market::open().await;
    let made = market.rents("one").await;
    market.until(made.id, AllocationState::Active).await;
    eventually("its node has signed that it has it", async || {
        let proven: bool =
            sqlx::query_scalar("select proven_until > lower(span) from usage_span where allocation_id = $1")
                .bind(made.id.uuid())
                .fetch_one(market.town.platform.apps[0].db.read())
                .await
                .expect("a span");
        proven.then_some(()).ok_or("not yet")
    })
    .await;
    let market = market.unplug().await;
    let kept: serde_json::Value = sqlx::query_scalar("select holds from node_held")
        .fetch_one(market.town.platform.apps[0].db.read())
        .await
        .expect("the last list");
    until_ends(&market, made.id, &[None]).await;
    list(&market, Some("off")).await;
    until_ends(&market, made.id, &[Some("power_lost")]).await;
    list(&market, Some("running")).await;
    until_ends(&market, made.id, &[Some("power_lost"), None]).await;
    // Its host was started again, and its guest with it.
    sqlx::query("update node_held set boot_id = 'another', at = now(), received_at = now()")
        .execute(market.town.platform.apps[0].db.bookkeeping())
        .await
        .expect("started again");
    until_ends(&market, made.id, &[Some("power_lost"), Some("power_lost"), None]).await;
    list(&market, None).await;
    let three = [Some("power_lost"), Some("power_lost"), Some("vm_absent")];
    until_ends(&market, made.id, &three).await;
    sqlx::query("update node_held set holds = $1, at = now(), received_at = now()")
        .bind(&kept)
        .execute(market.town.platform.apps[0].db.bookkeeping())
        .await
        .expect("back again");
    let four = [three[0], three[1], three[2], None];
    until_ends(&market, made.id, &four).await;

    // Its tenant wants it off: it keeps its slot, and is used.
    market.verb(made.id, "stop").await;
    let before = spans(&market, made.id).await;
    list(&market, Some("off")).await;
    eventually("that is proved, too", async || {
        said_again(&market).await;
        let spans = spans(&market, made.id).await;
        let moved = spans.len() == before.len() && spans[3].0 > before[3].0;
        moved.then_some(()).ok_or(spans)
    })
    .await;
    until_ends(&market, made.id, &four).await;
    market.close().await;
}

/// The nodes tell the api, and it writes that down itself.
#[tokio::test(flavor = "multi_thread")]
async fn used_time_is_proved_while_no_worker_is_there() {
    let market = Market::open().await;
    let made = market.rents("one").await;
    market.until(made.id, AllocationState::Active).await;
    market.town.platform.retire_worker();
    let before = spans(&market, made.id).await;
    let [before] = &before[..] else { panic!("one span") };
    for round in 1..=2 {
        eventually(&format!("it is proved further, {round}"), async || {
            let now = spans(&market, made.id).await;
            let further = now.len() == 1 && now[0].0 > before.0 + f64::from(round);
            further.then_some(()).ok_or(now)
        })
        .await;
    }
    market.close().await;
}
