//! The whole way with a real agent and a real executor: look, approve, rent, give back, wipe once more.

use dev::slots::approve_all;
use model::api::{PhaseState, TaskView};
use model::state::TaskState;

use super::renter::Renter;
use super::*;

#[tokio::test]
async fn slots_are_approved_rented_released_and_wiped_again() {
    let town = town().await;
    let (node, mut sim) = town.node_for("a", Profile::H100x8, NodeMode::Slice).await;
    let approved = approve_all(&town.api(), node).await.expect("slots");
    assert_eq!((approved.slots.len(), approved.blockers), (8, vec![]));
    let fleet = town.fleet().await;
    let renter = Renter::new(&fleet);
    let rented = renter.reserves(2).await.expect("two slots");
    let ended = async |task| -> TaskView {
        let view = town.until_task(task, TaskState::is_end).await;
        assert_eq!(view.state, TaskState::Succeeded, "{:?} {:?}", view.code, view.detail);
        view
    };
    let view = ended(renter.provisions(node, &rented).await.expect("a task")).await;
    assert_eq!(view.phases.len(), 17);
    assert!(
        view.phases
            .iter()
            .all(|phase| phase.state == PhaseState::Done && phase.took_ms.is_some())
    );
    // While a tenant has them, a look changes nothing.
    let again = approve_all(&town.api(), node).await.expect("slots");
    assert_eq!(
        again
            .slots
            .iter()
            .filter(|slot| slot.state == SlotState::Leased)
            .count(),
        2
    );
    assert!(again.slots.iter().all(|slot| slot.fault.is_none()), "{:?}", again.slots);
    assert_eq!(
        Renter::new(&fleet).reserves(7).await.expect_err("six are left"),
        Code::SlotUnavailable
    );
    let view = ended(renter.releases(node, &rented).await.expect("a task")).await;
    assert_eq!(view.phases.len(), 10);
    assert_eq!(states(&slots(&town, node).await), [SlotState::Free; 8]);
    // An operator's doubt, and its end.
    let id = rented[0].slot_id;
    reasoned(&town, &format!("/v1/slots/{id}/quarantine"))
        .await
        .expect("quarantined");
    let task: TaskView = verb(&town, &format!("/v1/slots/{id}/rewipe"))
        .await
        .expect("wiped again");
    ended(task.id).await;
    let view = slot(&town, id).await;
    assert_eq!((view.state, view.quarantine), (SlotState::Free, None));
    assert!(view.wiped_at.is_some());
    tokio::task::spawn_blocking(move || sim.stop()).await.expect("stops");
    town.end().await;
}
