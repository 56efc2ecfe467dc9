//! How a node comes, goes silent, is put aside, leaves and comes again. Ready is earned by a probe every time.

use std::path::Path;

use base::config::Config;
use base::testing::eventually;
use dev::api::Refused;
use dev::simnode::SimNode;
use dev::town::Town;
use host::pretend::{Leftover, Profile};
use model::api::{AuditRow, Enrolment, NodeView, Page, TaskView};
use model::id::NodeId;
use model::node_api::PROTOCOL;
use model::signal::Code;
use model::state::{NodeState, TaskState};
use serde_json::json;

use crate::EXE;
use crate::played::code;
use crate::puppet::{Keys, Puppet, enrolment_door, post};
use crate::tenant::Tenant;

/// A node that is not heard for three seconds is stale; honest ones ask every second.
fn impatient(config: &mut Config) {
    config.wait_hold_s = 1;
    config.heartbeat_stale_s = 3;
}

fn quiet(config: &mut Config) {
    config.wait_hold_s = 1;
    config.probe_every_s = 1_000_000;
    config.heartbeat_stale_s = 1_000_000;
}

/// The wait of a removed or quarantined node must not outlive it, so it is held long.
fn long_held(config: &mut Config) {
    quiet(config);
    config.wait_hold_s = 20;
}

async fn act(town: &Town, node: NodeId, verb: &str, body: serde_json::Value) -> anyhow::Result<NodeView> {
    town.api().post(&format!("/v1/nodes/{node}/{verb}"), &body).await
}

fn refused(outcome: anyhow::Result<NodeView>) -> Option<Code> {
    let error = outcome.expect_err("refused");
    error.downcast::<Refused>().expect("an answer").code()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_node_is_stale_and_only_a_probe_brings_it_back() {
    let town = Town::tuned(EXE, impatient).await;
    let (node, mut running) = town.node("mute", Profile::Cpu).await;
    running.agent.hold();
    let stale = town.until_node(node, NodeState::Stale).await;
    assert!(stale.waiting.is_some(), "it says why and what helps");
    running.agent.release();
    let back = town.until_node(node, NodeState::Ready).await;
    assert!(
        back.last_probe_at > Some(stale.state_since),
        "a probe after the silence: {back:?}"
    );
    assert_eq!(back.epoch, 1);
    running.stop();
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quarantine_stops_tasks_but_not_what_runs() {
    let town = Town::tuned(EXE, long_held).await;
    let node = Puppet::ready(&town, "aside").await;
    let runs = Tenant::new("ada", 20_001).moves_in(&town, node.id()).await;
    let task = node.claim().await;
    let queued = Tenant::new("bob", 20_002).moves_in(&town, node.id()).await;
    let reason = json!({ "reason": "smells of smoke" });
    act(&town, node.id(), "quarantine", reason.clone())
        .await
        .expect("put aside");

    let waited = node.waits().await;
    assert_eq!(
        (waited.status.as_u16(), code(&waited)),
        (403, Some(Code::NodeQuarantined))
    );
    assert_eq!(
        refused(act(&town, node.id(), "probe", json!({})).await),
        Some(Code::NodeQuarantined)
    );
    // It goes on reporting what it has.
    assert!(node.beats(&task, Some(town.db.clock().now())).await.status.is_success());
    town.until_task(runs, |state| state == TaskState::Started).await;
    assert!(node.succeeds(&town, &task).await.status.is_success());
    town.until_task(runs, |state| state == TaskState::Succeeded).await;
    assert_eq!(town.show_node(node.id()).await.state, NodeState::Quarantined);
    town.until_task(queued, |state| state == TaskState::Queued).await;

    act(&town, node.id(), "unquarantine", reason.clone())
        .await
        .expect("let go");
    assert_eq!(
        town.show_node(node.id()).await.state,
        NodeState::Enrolling,
        "not ready yet"
    );
    let mut probed = false;
    while !probed {
        for task in node.offered().await.tasks {
            probed |= task.task_id != queued;
            node.succeeds(&town, &task).await;
        }
    }
    town.until_node(node.id(), NodeState::Ready).await;
    town.until_task(queued, |state| state == TaskState::Succeeded).await;
    assert_eq!(
        refused(act(&town, node.id(), "unquarantine", reason).await),
        Some(Code::StateConflict)
    );
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_wait_ends_when_its_node_is_quarantined_or_removed_and_the_name_is_free_again() {
    let town = Town::tuned(EXE, long_held).await;
    let node = Puppet::ready(&town, "gone").await;
    let open = Tenant::new("ada", 20_001).moves_in(&town, node.id()).await;
    node.claim().await;
    let reason = json!({ "reason": "sold" });
    let (waited, done) = tokio::join!(node.waits(), act(&town, node.id(), "quarantine", reason.clone()));
    assert_eq!((done.is_ok(), code(&waited)), (true, Some(Code::NodeQuarantined)));

    let path = format!("/v1/nodes/{}/remove", node.id());
    let removed: NodeView = town.api().post(&path, &reason).await.expect("removed");
    assert_eq!(removed.state, NodeState::Removed);
    // Both replicas, on the connection that is open.
    eventually("its certificate is worth nothing", async || {
        match (code(&node.get("ping").await), code(&node.waits().await)) {
            (Some(Code::CertRevoked), Some(Code::CertRevoked)) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    let lost = town.until_task(open, TaskState::is_end).await;
    assert_eq!((lost.state, lost.code), (TaskState::Failed, Some(Code::NodeLost)));
    assert_eq!(
        refused(act(&town, node.id(), "remove", reason).await),
        Some(Code::NotFound)
    );

    let heir = Puppet::ready(&town, "gone").await;
    assert_ne!(heir.id(), node.id());
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn enrolling_again_raises_the_epoch_and_ends_everything_of_the_old_one() {
    let town = Town::tuned(EXE, quiet).await;
    let node = Puppet::ready(&town, "again").await;
    let open = Tenant::new("ada", 20_001).moves_in(&town, node.id()).await;
    let task = node.claim().await;
    let path = format!("/v1/nodes/{}/enroll", node.id());
    let enrolment: Enrolment = town.api().post(&path, &json!({})).await.expect("a token");
    assert_eq!(code(&node.get("ping").await), None, "a token alone changes nothing");

    let anew = Puppet::with_token(&enrolment.token).await;
    assert_eq!((anew.id(), anew.answer.epoch), (node.id(), 2));
    let lost = town.until_task(open, TaskState::is_end).await;
    assert_eq!((lost.state, lost.code), (TaskState::Failed, Some(Code::NodeLost)));
    eventually("the old certificate is refused", async || {
        match code(&node.get("ping").await) {
            Some(Code::CertRevoked) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    assert_eq!(
        code(&node.succeeds(&town, &task).await),
        Some(Code::CertRevoked),
        "nor may it report"
    );
    assert!(anew.opens(|_| {}).await.status.is_success());
    let probe = anew.claim().await;
    assert!(anew.succeeds(&town, &probe).await.status.is_success());
    assert_eq!(town.until_node(node.id(), NodeState::Ready).await.epoch, 2);
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_empty_node_changes_its_mode() {
    let town = Town::tuned(EXE, quiet).await;
    let node = Puppet::ready(&town, "moody").await;
    Tenant::new("ada", 20_001).moves_in(&town, node.id()).await;
    let task = node.claim().await;
    let slice = json!({ "mode": "slice" });
    assert_eq!(
        refused(act(&town, node.id(), "mode", slice.clone()).await),
        Some(Code::ModeConflict)
    );
    node.succeeds(&town, &task).await;
    let changed = act(&town, node.id(), "mode", slice).await.expect("it is empty now");
    assert_eq!(changed.mode.as_str(), "slice");
    town.end().await;
}

/// Changes the pretended machine while nobody looks at it.
fn meddle(node: &SimNode, change: impl FnOnce(&mut serde_json::Value)) {
    node.executor.hold();
    let path = node.dir.host().join("state.json");
    let mut kept = read(&path);
    change(&mut kept["state"]);
    std::fs::write(&path, kept.to_string()).expect("writes");
    node.executor.release();
}

fn read(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).expect("the host's memory")).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_departure_that_cannot_be_proved_quarantines_the_node() {
    let town = Town::tuned(EXE, impatient).await;
    let (node, mut running) = town.node("haunted", Profile::Cpu).await;
    let tenant = Tenant::new("ada", 20_001);
    let moved_in = tenant.moves_in(&town, node).await;
    town.until_task(moved_in, |state| state == TaskState::Succeeded).await;
    meddle(&running, |state| {
        state["leftovers"] = json!({ "20001": [Leftover::File] });
        state["immovable"] = json!([Leftover::File]);
    });
    let moved_out = tenant.moves_out(&town, node).await;
    let failed = town.until_task(moved_out, TaskState::is_end).await;
    assert_eq!(
        (failed.state, failed.code),
        (TaskState::Failed, Some(Code::AbsenceNotProved))
    );
    town.until_node(node, NodeState::Quarantined).await;

    // An operator has cleaned up: what brings the node back is a probe, not a word.
    meddle(&running, |state| {
        state["leftovers"] = json!({});
        state["immovable"] = json!([]);
    });
    let since = town.show_node(node).await.state_since;
    act(&town, node, "unquarantine", json!({ "reason": "cleaned by hand" }))
        .await
        .expect("let go");
    let back = town.until_node(node, NodeState::Ready).await;
    assert!(back.last_probe_at > Some(since));
    running.stop();
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_with_gpus_lets_nobody_out_without_a_reset_proof() {
    let town = Town::start(EXE).await;
    let (node, mut running) = town.node("gpus", Profile::H100x8).await;
    let tenant = Tenant::new("ada", 20_001);
    let moved_in = tenant.moves_in(&town, node).await;
    town.until_task(moved_in, |state| state == TaskState::Succeeded).await;
    // One of them cannot be reset any more.
    meddle(&running, |state| {
        let functions = state["hardware"]["functions"].as_object_mut().expect("functions");
        let gpu = functions.values_mut().find(|function| function["class"] == 0x03_0200);
        gpu.expect("a GPU")["reset_methods"] = json!([]);
    });
    let moved_out = tenant.moves_out(&town, node).await;
    let failed = town.until_task(moved_out, TaskState::is_end).await;
    assert_eq!(
        (failed.state, failed.code),
        (TaskState::Failed, Some(Code::ResetProofUnavailable))
    );
    let host = read(&running.dir.host().join("state.json"));
    assert_eq!(
        host["state"]["accounts"]["ada"]["locked"], false,
        "nothing was touched: {host}"
    );
    town.until_node(node, NodeState::Quarantined).await;
    running.stop();
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_one_step_apart_work_and_a_build_is_asked_only_for_what_it_has() {
    let town = Town::tuned(EXE, quiet).await;
    let node = Puppet::enrol(&town, "skewed").await;
    for (protocol, works) in [(PROTOCOL - 1, true), (PROTOCOL + 1, true), (PROTOCOL + 2, false)] {
        let opened = node.opens(|request| request.versions.protocol = protocol).await;
        assert_eq!(opened.status.is_success(), works, "protocol {protocol}");
        if !works {
            assert_eq!(
                (opened.status.as_u16(), code(&opened)),
                (426, Some(Code::AgentIncompatible))
            );
        }
    }
    let bare = node
        .opens(|request| request.task_types.retain(|t| t.task_type != "diag.health_probe"))
        .await;
    assert!(bare.status.is_success());
    let refused = town
        .api()
        .post::<TaskView>(&format!("/v1/nodes/{}/probe", node.id()), &json!({}))
        .await;
    let refused = refused
        .expect_err("it has no such type")
        .downcast::<Refused>()
        .expect("an answer");
    assert_eq!(
        (refused.status.as_u16(), refused.code()),
        (422, Some(Code::NodeLacksTaskType))
    );
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_that_is_not_for_development_refuses_a_simulated_node() {
    let town = Town::tuned(EXE, |config| {
        quiet(config);
        config.dev = false;
    })
    .await;
    let enrolment = town.add_node("toy").await;
    let token = enrolment.token.parse().expect("a token");
    let door = enrolment_door(&token);
    let request = Keys::new().enrol_request(&token);
    let answer = post(&door, "/internal/v1/enroll", &request).await;
    assert_eq!(
        (answer.status.as_u16(), code(&answer)),
        (403, Some(Code::SimulatedNodeRefused))
    );
    refused_in_the_audit(&town, enrolment.node.id, "node.enrol").await;

    // The token was not used up. Who comes in as real cannot turn out to be simulated later.
    let liar = Puppet::claiming(&enrolment.token, |request| request.simulated = false).await;
    let opened = liar.opens(|request| request.simulated = true).await;
    assert_eq!(
        (opened.status.as_u16(), code(&opened)),
        (403, Some(Code::SimulatedNodeRefused))
    );
    refused_in_the_audit(&town, liar.id(), "node.session").await;
    town.end().await;
}

async fn refused_in_the_audit(town: &Town, node: NodeId, action: &str) {
    let path = format!("/v1/audit?target={node}&action={action}");
    let rows: Page<AuditRow> = town.api().get(&path).await.expect("the audit is read");
    let row = rows.items.first().expect("a row");
    assert_eq!(
        (row.outcome.as_str(), row.code.as_deref()),
        ("refused", Some("simulated_node_refused"))
    );
}
