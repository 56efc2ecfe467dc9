//! The ways back: cancelled before its node has it, ended by an operator while its node is away.

use allocation::allocation::{moves, store};
use model::api::{ConditionCode, QuotaView};
use model::signal::Code;
use model::time::Timestamp;

use super::*;

async fn used(market: &Market, id: AllocationId) -> (u32, u32) {
    let project = market.shows(id).await.project_id;
    let path = format!("/v1/projects/{project}/quota");
    let quota: QuotaView = market.api().get(&path).await.expect("a quota");
    (quota.slots_used, quota.allocations_used)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_node_has_yet_is_taken_back_at_once() {
    use AllocationState::{Cancelled, Provisioning, Requested, Unwinding};
    let market = Market::open().await.unplug().await;
    let made = market.rents("one").await;
    market.until(made.id, Provisioning).await;
    assert_eq!(used(&market, made.id).await, (1, 1));
    let cancelled = market.verb(made.id, "cancel").await;
    assert!(
        [Unwinding, Cancelled].contains(&cancelled.state),
        "{:?}",
        cancelled.state
    );
    market.verb(made.id, "cancel").await;
    let over = market.until(made.id, Cancelled).await;
    assert!(over.ended_at.is_some() && !over.forced);
    assert_eq!(
        market.moves(made.id).await,
        [Requested, Provisioning, Unwinding, Cancelled]
    );
    market.tells_its_versions(made.id).await;
    assert_eq!((market.free().await, used(&market, made.id).await), (8, (0, 0)));
    // Another like it, and the same way back by the other verb.
    let again = format!("/v1/allocations/{}/again", made.id);
    let next: AllocationView = market.api().post_as("two", &again, &json!({})).await.expect("accepted");
    assert_ne!(next.id, made.id);
    market.verb(next.id, "release").await;
    market.until(next.id, Cancelled).await;
    assert_eq!(market.free().await, 8);
    market.close().await;
}

/// The wipe of a disk may take a day; without one it is seen much earlier that something stands still.
#[tokio::test(flavor = "multi_thread")]
async fn the_way_back_is_given_a_day_only_where_a_disk_may_have_been_written() {
    let market = Market::open().await;
    let given = market.rents("one").await;
    market.until(given.id, AllocationState::Active).await;
    let market = market.unplug().await;
    let promised = market.rents("two").await;
    market.until(promised.id, AllocationState::Provisioning).await;
    let left_s = async |id: AllocationId| -> i64 {
        let db = &market.town.platform.apps[0].db;
        let change = db.change(&base::Actor::system("test"), "allocation.cancel", id).await;
        let mut change = change.expect("a change");
        let row = store::lock(&mut change, id).await.expect("there");
        let deadline = moves::deadline(&mut change, &row, AllocationState::Unwinding).await;
        let left_ms = Timestamp::from(deadline.expect("an answer").expect("a deadline")).since_ms(change.at());
        change.rollback().await.expect("forgotten");
        left_ms / 1000
    };
    assert_eq!(left_s(promised.id).await, 600);
    assert_eq!(left_s(given.id).await, 600 + 86_400);
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_ends_it_while_its_node_is_away_and_the_slot_stays_closed_until_it_is_wiped() {
    use AllocationState::{Active, Released};
    let market = Market::open().await;
    let made = market.rents("one").await;
    market.until(made.id, Active).await;
    market.sim.agent.hold();
    market.verb(made.id, "release").await;
    let forced = format!("/v1/allocations/{}/force-release", made.id);
    let refused = market
        .api()
        .post::<AllocationView>(&forced, &json!({ "reason": " " }))
        .await;
    assert!(refused.is_err(), "an operator says why");
    let over: AllocationView = market
        .api()
        .post(&forced, &json!({ "reason": "its host is gone" }))
        .await
        .expect("accepted");
    assert_eq!((over.state, over.forced), (Released, true));
    assert_eq!(used(&market, made.id).await, (0, 0));
    let slots = market.slots().await;
    let slot = slots.iter().find(|slot| slot.id == made.slot_ids[0]).expect("its slot");
    assert_eq!(slot.state, SlotState::Quarantined);
    assert_eq!(slot.quarantine.as_ref().map(|q| q.code), Some(Code::WipeUnproved));
    let again: AllocationView = market
        .api()
        .post(&forced, &json!({ "reason": "twice" }))
        .await
        .expect("accepted");
    assert_eq!(again.version, over.version, "asked twice is asked once");
    assert!(!again.conditions.iter().any(|one| one.code == ConditionCode::Stuck));
    market.sim.agent.release();
    eventually("it is wiped once its node is back", async || {
        let slots = market.slots().await;
        let slot = slots
            .into_iter()
            .find(|slot| slot.id == made.slot_ids[0])
            .expect("its slot");
        match slot.state {
            SlotState::Free if slot.wiped_at.is_some() => Ok(()),
            state => Err(state),
        }
    })
    .await;
    market.close().await;
}
