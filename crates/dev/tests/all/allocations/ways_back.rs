//! The ways back: cancelled before its node has it, ended by an operator while its node is away.

use model::api::{ConditionCode, QuotaView};
use model::signal::Code;

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
