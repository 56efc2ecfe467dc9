//! Clocks that are wrong, the database's among them, end nobody's time, and keep nobody from going on.

use allocation::Worker;
use allocation::work::deadlines;
use model::api::ConditionCode;

use super::*;
use crate::clock_jumps::another;

const AN_HOUR_MS: i64 = 3_600_000;

async fn row(market: &Market, set: &str, id: AllocationId) {
    let done = sqlx::query(sqlx::AssertSqlSafe(set.to_owned()))
        .bind(id.uuid())
        .execute(market.town.platform.apps[0].db.bookkeeping())
        .await;
    assert_eq!(done.expect("set").rows_affected(), 1, "{set}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_ahead_ends_nobodys_time_and_calls_nobody_late() {
    let market = Market::open().await;
    let wish = AllocationCreate {
        ttl_s: Some(1800),
        ..Market::wish()
    };
    let made: AllocationView = market
        .api()
        .post_as("ends", "/v1/allocations", &wish)
        .await
        .expect("accepted");
    market.until(made.id, AllocationState::Active).await;
    let market = market.unplug().await;
    let waits = market.rents("waits").await;
    market.until(waits.id, AllocationState::Provisioning).await;
    row(
        &market,
        "update allocation set deadline_at = now() + interval '30 minutes', version = version + 1 where id = $1",
        waits.id,
    )
    .await;
    let (ahead, off) = another(&market.town, AN_HOUR_MS).await;
    let ahead = Worker::here(ahead);
    deadlines::look(&ahead).await.expect("it looks");
    assert_eq!(market.shows(made.id).await.state, AllocationState::Active);
    let stuck = |seen: &AllocationView| seen.conditions.iter().any(|one| one.code == ConditionCode::Stuck);
    assert!(!stuck(&market.shows(waits.id).await));
    // When it is true, the same look does it.
    off.store(0, std::sync::atomic::Ordering::SeqCst);
    let over =
        "update allocation set ends_at = now() - interval '1 second', deadline_at = deadline_at - interval '1 hour',
                                      version = version + 1 where id = $1";
    row(&market, over, made.id).await;
    row(&market, over, waits.id).await;
    deadlines::look(&ahead).await.expect("it looks");
    assert_eq!(market.shows(made.id).await.state, AllocationState::Releasing);
    assert!(stuck(&market.shows(waits.id).await));
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_databases_own_clock_has_dated_far_ahead_goes_on_as_if_it_were_due() {
    let market = Market::open().await.unplug().await;
    for (key, ahead) in [("leased", "lease_until"), ("due", "due_at")] {
        let made = market.rents(key).await;
        market.until(made.id, AllocationState::Provisioning).await;
        eventually("it waits in nobody's hands", async || {
            let parked: bool = sqlx::query_scalar(
                "select lease_until = to_timestamp(0) and waits_for is not null from workflow where allocation_id = $1",
            )
            .bind(made.id.uuid())
            .fetch_one(market.town.platform.apps[0].db.read())
            .await
            .expect("a workflow");
            parked.then_some(()).ok_or("not yet")
        })
        .await;
        let set = format!("update workflow set {ahead} = now() + interval '10 minutes' where allocation_id = $1");
        row(&market, &set, made.id).await;
        eventually("it is taken up again", async || {
            let left: f64 = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
                "select extract(epoch from {ahead} - now())::float8 from workflow where allocation_id = $1"
            )))
            .bind(made.id.uuid())
            .fetch_one(market.town.platform.apps[0].db.read())
            .await
            .expect("a workflow");
            (left < 60.0).then_some(()).ok_or(left)
        })
        .await;
        market.verb(made.id, "cancel").await;
        market.until(made.id, AllocationState::Cancelled).await;
    }
    market.close().await;
}
