//! A repair that its node has already while the release begins: the release waits for it, so that the account is not made
//! again once its absence was proved.

use dev::key_rotations::comings_and_goings;
use rustix::process::{Signal, kill_process};

use super::machines::{asked, open, rents};
use super::*;

/// The executor neither runs nor dies; whoever offers it something waits.
fn stands_still(market: &Market, still: bool) {
    let pid = market.sim.executor.pid().expect("it runs");
    let signal = if still { Signal::STOP } else { Signal::CONT };
    kill_process(pid, signal).expect("it is there");
}

/// How many tasks that take the account away were asked for.
async fn takes_away(market: &Market) -> i64 {
    sqlx::query_scalar("select count(*) from task where task_type = 'allocation.deprovision_user'")
        .fetch_one(market.town.platform.apps[0].db.read())
        .await
        .expect("a count")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_waits_for_a_repair_that_was_handed_out() {
    let market = open().await;
    let made = rents(&market, "one").await.expect("accepted");
    market.until(made.id, AllocationState::Active).await;
    stands_still(&market, true);
    market.verb(made.id, "repair").await;
    eventually("the node has it", async || match asked(&market).await.last() {
        Some((state, Some(_))) if state == "dispatched" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;

    market.verb(made.id, "release").await;
    eventually("the release has tried and waits", async || {
        let waiting: Option<String> = sqlx::query_scalar("select waiting_code from allocation where id = $1")
            .bind(made.id.uuid())
            .fetch_one(market.town.platform.apps[0].db.read())
            .await
            .expect("a row");
        (waiting.as_deref() == Some("state_conflict"))
            .then_some(())
            .ok_or(waiting)
    })
    .await;
    assert_eq!(market.shows(made.id).await.state, AllocationState::Releasing);
    assert_eq!(
        takes_away(&market).await,
        0,
        "nothing is proved while it may still be made"
    );
    assert_eq!(asked(&market).await.last().expect("a task").0, "dispatched");

    stands_still(&market, false);
    market.until(made.id, AllocationState::Released).await;
    let in_order: bool = sqlx::query_scalar(
        "select max(ended_at) filter (where task_type = 'allocation.provision_user')
                <= min(created_at) filter (where task_type = 'allocation.deprovision_user') from task",
    )
    .fetch_one(market.town.platform.apps[0].db.read())
    .await
    .expect("both");
    assert!(in_order, "made for the last time before it was taken away");
    assert_eq!(takes_away(&market).await, 1);
    let seen = comings_and_goings(&market.sim).expect("the host's own log");
    assert_eq!(
        seen.values().collect::<Vec<_>>(),
        [&(1, 1)],
        "it came once and went once: {seen:?}"
    );
    let next = rents(&market, "two").await.expect("clean, with proof");
    market.until(next.id, AllocationState::Active).await;
    market.verb(next.id, "release").await;
    market.until(next.id, AllocationState::Released).await;
    market.close().await;
}
