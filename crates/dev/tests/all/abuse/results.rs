//! Results that were never earned. Each is built honest, spoilt in one place, and leaves the task as it was.

use base::Clock;
use base::testing::eventually;
use dev::town::Town;
use model::api::NodeView;
use model::dsse::Envelope;
use model::id::{InstallationId, TaskId};
use model::node_api::{OfferedTask, ResultAnswer};
use model::outcome::{Outcome, ResultPayload};
use model::signal::Code;
use model::state::{NodeState, TaskState};

use super::{audited, refused, snapshot};
use crate::EXE;
use crate::puppet::Puppet;
use crate::tenant::Tenant;

const TABLES: [&str; 2] = ["task", "node"];

#[tokio::test(flavor = "multi_thread")]
async fn abuse_42_forged_result() {
    let town = Town::still(EXE).await;
    let node = Puppet::awake(&town, "honest").await;
    let other = Puppet::enrol(&town, "other").await;
    // Asked for by the loop, as soon as the node has a session.
    let task = node.claim().await;
    said_how_it_is(&town, &node, &task).await;
    let before = snapshot(&town, &TABLES).await;
    let attacks = forged(&town, &node, &other, &task);
    for (what, fence, envelope, code) in attacks {
        let answer = node.land(task.task_id, fence, envelope).await;
        assert!(!answer.status.is_success(), "{what}: {answer:?}");
        let row = audited(&town, &refused(&answer, code)).await;
        assert_eq!(
            (row.action.as_str(), row.target_id),
            ("task.result", task.task_id.to_string())
        );
        assert_eq!(snapshot(&town, &TABLES).await, before, "{what} changed something");
    }
    from_elsewhere(&town, &node, &other, &task).await;
    assert_eq!(snapshot(&town, &TABLES).await, before);
    the_honest_one_lands_once(&town, &node, &task).await;
    town.end().await;
}

/// The node's condition is written some time after its beat: before anything is compared, it is there.
async fn said_how_it_is(town: &Town, node: &Puppet, task: &OfferedTask) {
    let beat = node.post("heartbeat", &node.heartbeat(task, None)).await;
    assert!(beat.status.is_success(), "{beat:?}");
    eventually("the node's condition is written", async || {
        let view: NodeView = town
            .api()
            .get(&format!("/v1/nodes/{}", node.id()))
            .await
            .expect("a node");
        view.condition.map(drop).ok_or("nothing is known of it")
    })
    .await;
}

type Attack = (&'static str, u64, Envelope, Code);

fn forged(town: &Town, node: &Puppet, other: &Puppet, task: &OfferedTask) -> Vec<Attack> {
    let good = node.result(task, town.db.clock().now());
    let signed = |spoilt: ResultPayload| spoilt.sign(&node.keys.result);
    let good_signed = signed(good.clone());
    let unsigned = Envelope {
        signatures: Vec::new(),
        ..good_signed.clone()
    };
    let tampered = Envelope {
        payload: signed(ResultPayload {
            outcome: Outcome::Failed,
            ..good.clone()
        })
        .payload,
        ..good_signed.clone()
    };
    let as_task = Envelope {
        payload_type: model::envelope::TASK_TYPE.to_owned(),
        ..good_signed.clone()
    };
    let not_a_result = model::dsse::sign(model::outcome::RESULT_TYPE, b"{}", &[&node.keys.result]);
    let fence = task.fence;
    let of = |change: fn(&mut ResultPayload)| {
        let mut spoilt = good.clone();
        change(&mut spoilt);
        signed(spoilt)
    };
    let of_other = signed(ResultPayload {
        node_id: other.id(),
        ..good.clone()
    });
    vec![
        ("an older fence", fence - 1, good_signed.clone(), Code::StaleFence),
        ("a newer fence", fence + 1, good_signed.clone(), Code::StaleFence),
        ("a fence beyond numbers", u64::MAX, good_signed, Code::StaleFence),
        (
            "another node's key",
            fence,
            good.sign(&other.keys.result),
            Code::ResultSignatureInvalid,
        ),
        ("no signature", fence, unsigned, Code::ResultSignatureInvalid),
        (
            "a signature of other bytes",
            fence,
            tampered,
            Code::ResultSignatureInvalid,
        ),
        ("another type", fence, as_task, Code::ResultSignatureInvalid),
        (
            "the envelope of the task itself",
            fence,
            task.envelope.clone(),
            Code::ResultSignatureInvalid,
        ),
        (
            "another payload",
            fence,
            of(|r| r.payload_sha256 = model::digest::Sha256::of(b"other")),
            Code::ResultConflict,
        ),
        ("another node", fence, of_other, Code::ResultConflict),
        ("another epoch", fence, of(|r| r.node_epoch += 1), Code::ResultConflict),
        (
            "another task",
            fence,
            of(|r| r.task_id = TaskId::new()),
            Code::ResultConflict,
        ),
        (
            "another installation",
            fence,
            of(|r| r.aud = InstallationId::new()),
            Code::ResultConflict,
        ),
        (
            "success that never started",
            fence,
            of(|r| r.started_at = None),
            Code::ResultMalformed,
        ),
        ("signed, and no result", fence, not_a_result, Code::ResultMalformed),
    ]
}

/// Another node, with its own good certificate, speaks about a task that is not its own; and a beat under a fence
/// that was never given starts nothing.
async fn from_elsewhere(town: &Town, node: &Puppet, other: &Puppet, task: &OfferedTask) {
    let now = town.db.clock().now();
    let envelope = node.result(task, now).sign(&node.keys.result);
    let carried = other.land(task.task_id, task.fence, envelope).await;
    let error = refused(&carried, Code::NotFound);
    let row = audited(town, &error).await;
    assert_eq!(
        (row.action.as_str(), row.actor_id),
        ("task.result", other.id().to_string())
    );
    let missing = other
        .land(
            TaskId::new(),
            task.fence,
            node.result(task, now).sign(&node.keys.result),
        )
        .await;
    let missing = refused(&missing, Code::NotFound);
    assert_eq!((error.message, error.hint), (missing.message, missing.hint));
    let stale = OfferedTask {
        fence: task.fence + 1,
        ..task.clone()
    };
    let beat = node.post("heartbeat", &node.heartbeat(&stale, Some(now))).await;
    assert!(beat.status.is_success(), "{beat:?}");
}

async fn the_honest_one_lands_once(town: &Town, node: &Puppet, task: &OfferedTask) {
    let result = node.result(task, town.db.clock().now());
    let envelope = result.sign(&node.keys.result);
    for duplicate in [false, true, true] {
        let answer: ResultAnswer = node
            .land(task.task_id, task.fence, envelope.clone())
            .await
            .json()
            .expect("it lands");
        assert_eq!(answer.duplicate, duplicate);
    }
    let landed = town.until_task(task.task_id, TaskState::is_end).await;
    assert_eq!(landed.state, TaskState::Succeeded);
    town.until_node(node.id(), NodeState::Ready).await;
    let before = snapshot(town, &TABLES).await;
    let second = ResultPayload {
        outcome: Outcome::Failed,
        code: Some(Code::HostCommandFailed),
        ..result
    };
    let other = node
        .land(task.task_id, task.fence, second.sign(&node.keys.result))
        .await;
    audited(town, &refused(&other, Code::ResultConflict)).await;
    assert_eq!(snapshot(town, &TABLES).await, before, "the first word stands");
}

/// A rogue agent spoils the wrapping of what we have signed, has its executor refuse that, and hands over the real task
/// afterwards. The refusal is signed and about these very bytes; it counts for nothing while the task may still start,
/// and not against what has started.
#[tokio::test(flavor = "multi_thread")]
async fn abuse_42_refusal_before_the_work() {
    let clock = Clock::fixed(Clock::real().now());
    let town = Town::at(EXE, clock, |config| {
        config.probe_every_s = 1_000_000;
        config.heartbeat_stale_s = 1_000_000;
    })
    .await;
    let node = Puppet::ready(&town, "two-faced").await;
    let hearsay = |task: &OfferedTask, code: Code| {
        let mut refusal = node.result(task, town.db.clock().now());
        (refusal.op_id, refusal.started_at, refusal.output) = (None, None, None);
        (refusal.outcome, refusal.code) = (Outcome::Refused, Some(code));
        refusal.sign(&node.keys.result)
    };
    for (uid, code) in [(20_001, Code::SignatureInvalid), (20_002, Code::KeyUnknown)] {
        let asked = Tenant::new(&format!("t{uid}"), uid).moves_in(&town, node.id()).await;
        let task = node.claim().await;
        let early = node.land(asked, task.fence, hearsay(&task, code)).await;
        assert_eq!(early.status, 425, "the agent of an honest node asks again");
        audited(&town, &refused(&early, Code::RefusalEarly)).await;
        assert_eq!(town.until_task(asked, |_| true).await.state, TaskState::Dispatched);
        node.beats(&task, Some(town.db.clock().now())).await;
        town.until_task(asked, |state| state == TaskState::Started).await;
        let late = node.land(asked, task.fence, hearsay(&task, code)).await;
        refused(&late, Code::ResultConflict);
        let landed = node.succeeds(&town, &task).await;
        assert!(!landed.json::<ResultAnswer>().expect("it lands").duplicate);
    }
    // Nobody waits for ever: once it cannot start any more, the refusal is believed.
    let asked = Tenant::new("late", 20_003).moves_in(&town, node.id()).await;
    let task = node.claim().await;
    let refusal = hearsay(&task, Code::KeyUnknown);
    town.db.clock().advance(1_141_000);
    let landed = node.land(asked, task.fence, refusal).await;
    assert!(landed.status.is_success(), "{landed:?}");
    let ended = town.until_task(asked, TaskState::is_end).await;
    assert_eq!((ended.state, ended.code), (TaskState::Failed, Some(Code::KeyUnknown)));
    town.end().await;
}
