//! A node out of service and back: nothing new is given out, and it returns only as it was approved.

use model::api::NodeView;
use model::state::NodeState;

use super::renter::Renter;
use super::*;

#[tokio::test]
async fn a_drained_node_comes_back_only_as_it_was_approved() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let fleet = town.fleet().await;
    puppet.in_service(&town).await;
    let tenant = Renter::new(&fleet);
    tenant.reserves(1).await.expect("a slot");
    let node = format!("/v1/nodes/{}", puppet.id());
    reasoned(&town, &format!("{node}/drain")).await.expect("drains");
    let view = town.until_node(puppet.id(), NodeState::Draining).await;
    assert!(view.waiting.is_some());
    assert_eq!(
        Renter::new(&fleet).reserves(1).await.expect_err("draining"),
        Code::SlotUnavailable
    );
    assert_eq!(tenant.gives_back().await, 1);
    town.until_node(puppet.id(), NodeState::Drained).await;
    // Back with a GPU less: it stays where it is and says why.
    let comes_back = async || {
        let _: NodeView = verb(&town, &format!("{node}/undrain")).await.expect("asks");
        let probe = puppet.claim().await;
        puppet.ends(&town, &probe, |_| {}).await;
    };
    comes_back().await;
    let mut output = found(puppet.id());
    let lost = output.candidate_slots.remove(3);
    output.gpu_devices.retain(|gpu| gpu.pci_address != lost.pci_address);
    puppet.finds(&town, &output).await;
    let view = town.show_node(puppet.id()).await;
    assert_eq!(view.state, NodeState::Drained);
    let reason = view.state_reason.expect("a reason");
    assert!(reason.contains(&lost.pci_address.to_string()), "{reason}");
    // Back as it was.
    comes_back().await;
    puppet.finds(&town, &found(puppet.id())).await;
    town.until_node(puppet.id(), NodeState::Ready).await;
    assert_eq!(Renter::new(&fleet).reserves(8).await.expect("all of them").len(), 8);
    assert_eq!(
        verb::<NodeView>(&town, &format!("{node}/undrain"))
            .await
            .expect_err("it is ready"),
        Code::StateConflict
    );
    // Nor does its mode change under tenants.
    let mode: Result<NodeView, _> = town
        .api()
        .post(&format!("{node}/mode"), &json!({ "mode": "machine" }))
        .await;
    assert_eq!(code(&mode.expect_err("slots are held")), Code::ModeConflict);
    town.end().await;
}

/// The last word counts: what was on its way back stays out, whatever its probe says by then.
#[tokio::test]
async fn a_node_that_is_drained_again_does_not_come_back() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let fleet = town.fleet().await;
    puppet.in_service(&town).await;
    let tenant = Renter::new(&fleet);
    tenant.reserves(1).await.expect("a slot");
    let node = format!("/v1/nodes/{}", puppet.id());
    reasoned(&town, &format!("{node}/drain")).await.expect("drains");
    for state in [NodeState::Draining, NodeState::Drained] {
        let _: NodeView = verb(&town, &format!("{node}/undrain")).await.expect("asks");
        reasoned(&town, &format!("{node}/drain"))
            .await
            .expect("drains after all");
        let probe = puppet.claim().await;
        puppet.ends(&town, &probe, |_| {}).await;
        assert!(puppet.wait().await.is_empty(), "nobody looks for a way back");
        let view = town.show_node(puppet.id()).await;
        assert_eq!((view.state, view.state_reason.as_deref()), (state, Some("a test")));
        tenant.gives_back().await;
    }
    town.end().await;
}

/// Whoever waits for `drained` does not wait for ever because the last tenant left while the node was silent.
#[tokio::test]
async fn a_node_that_emptied_while_it_was_silent_is_drained_when_it_is_back() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let fleet = town.fleet().await;
    puppet.in_service(&town).await;
    let tenant = Renter::new(&fleet);
    tenant.reserves(1).await.expect("a slot");
    let node = format!("/v1/nodes/{}", puppet.id());
    reasoned(&town, &format!("{node}/drain")).await.expect("drains");
    let mut change = tenant.change("node.stale").await;
    let row = fleet::node::state::lock(&mut change, puppet.id()).await.expect("there");
    fleet::node::state::enter(&mut change, &row, NodeState::Stale, "silent")
        .await
        .expect("stale");
    change.commit().await.expect("silent");
    assert_eq!(tenant.gives_back().await, 1);
    town.until_node(puppet.id(), NodeState::Stale).await;
    let probe = puppet.claim().await;
    puppet.ends(&town, &probe, |_| {}).await;
    town.until_node(puppet.id(), NodeState::Drained).await;
    town.end().await;
}

/// Nobody would ever hear of what they had, and nobody would wipe it.
#[tokio::test]
async fn a_node_that_tenants_have_something_of_is_not_removed() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let fleet = town.fleet().await;
    puppet.in_service(&town).await;
    let tenant = Renter::new(&fleet);
    tenant.reserves(2).await.expect("two slots");
    let remove = format!("/v1/nodes/{}/remove", puppet.id());
    assert_eq!(
        reasoned(&town, &remove).await.expect_err("somebody's"),
        Code::StateConflict
    );
    assert_ne!(town.show_node(puppet.id()).await.state, NodeState::Removed);
    assert_eq!(tenant.gives_back().await, 2);
    reasoned(&town, &remove).await.expect("nobody's");
    town.end().await;
}
