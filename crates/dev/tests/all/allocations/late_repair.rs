//! A repair that its node has already while the release begins: the release waits for it, so that the account is not made
//! again once its absence was proved.

use dev::key_rotations::comings_and_goings;
use model::trust::{KeyStatus, Purpose};
use rustix::process::{Signal, kill_process};

use super::machines::{asked, open, rents};
use super::*;
use crate::keys::revocation::revoke;
use crate::keys::{key_of, trust};

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

async fn until_it_waits(market: &Market, id: AllocationId) {
    eventually("the release has tried and waits", async || {
        let waiting: Option<String> = sqlx::query_scalar("select waiting_code from allocation where id = $1")
            .bind(id.uuid())
            .fetch_one(market.town.platform.apps[0].db.read())
            .await
            .expect("a row");
        (waiting.as_deref() == Some("state_conflict"))
            .then_some(())
            .ok_or(waiting)
    })
    .await;
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
    until_it_waits(&market, made.id).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_whose_key_is_revoked_is_not_issued_again_behind_a_release() {
    let market = open().await;
    let made = rents(&market, "one").await.expect("accepted");
    market.until(made.id, AllocationState::Active).await;
    market.sim.agent.hold();
    market.verb(made.id, "repair").await;
    // Handed out, and the answer was lost on the way: the node does not have it yet.
    sqlx::query(
        "update task set state = 'dispatched', fence = nextval('task_fence'), dispatched_at = now(),
                lease_until = now() + interval '1 hour' where task_type = 'allocation.provision_user' and state = 'queued'",
    )
    .execute(market.town.platform.apps[0].db.bookkeeping())
    .await
    .expect("handed out");
    market.verb(made.id, "release").await;
    until_it_waits(&market, made.id).await;
    let keyid = key_of(&trust(&market.town).await, Purpose::Allocation, KeyStatus::Active);
    revoke(&market.town, keyid).await;
    market.sim.agent.release();
    market.until(made.id, AllocationState::Released).await;
    let states: Vec<String> = asked(&market).await.into_iter().map(|(state, _)| state).collect();
    assert_eq!(states, ["succeeded", "cancelled"], "nobody wants it any more");
    assert_eq!(takes_away(&market).await, 1);
    let seen = comings_and_goings(&market.sim).expect("the host's own log");
    assert_eq!(seen.values().collect::<Vec<_>>(), [&(1, 1)], "{seen:?}");
    market.close().await;
}
