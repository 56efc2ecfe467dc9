//! What can happen to a task while it runs.

use std::sync::Arc;

use host::pretend::Profile;
use model::envelope::TaskPayload;
use model::id::{AllocationId, derive_task};
use model::outcome::Outcome;
use model::signal::Code;
use model::socket::{FromAgent, FromExecutor};
use model::trust::{KeyStatus, Purpose};

use crate::gate::Gate;
use crate::place::{Agent, Place};
use crate::users::{deprovision, provision};

/// An executor whose tasks stop before `verb`.
fn gated(verb: &'static str) -> (Place, Arc<Gate>, Agent) {
    let mut place = Place::start(Profile::Cpu);
    place.stop().expect("a clean end");
    let gate = Gate::before(verb, &place.pretend);
    place.users = Some(gate.clone());
    place.serve();
    let agent = place.connect();
    (place, gate, agent)
}

#[test]
fn a_cancelled_task_is_taken_back() {
    let (place, gate, mut agent) = gated("ensure_home");
    let clean = place.pretend.snapshot();
    let payload = provision(&place, AllocationId::new());
    agent.offer_good(&place, &payload);
    gate.reached();
    let state = agent.state();
    assert_eq!((state.tasks.len(), state.tasks[0].phase.as_str()), (1, "home"));
    agent.send(&FromAgent::Cancel {
        task_id: payload.task_id,
    });
    agent.state(); // answered in order: the cancel has been heard
    gate.open();
    let result = place.open(&agent.done(payload.task_id));
    assert_eq!(
        (result.outcome, result.code),
        (Outcome::Cancelled, Some(Code::TaskCancelled))
    );
    assert_eq!(result.undone, ["home", "account", "look"]);
    assert_eq!(place.pretend.snapshot(), clean);
}

#[test]
fn a_removal_is_not_cancelled() {
    let (place, gate, mut agent) = gated("ensure_no_processes");
    let allocation = AllocationId::new();
    assert_eq!(
        agent.run(&place, &provision(&place, allocation)).outcome,
        Outcome::Succeeded
    );
    let payload = deprovision(&place, allocation);
    agent.offer_good(&place, &payload);
    gate.reached();
    agent.send(&FromAgent::Cancel {
        task_id: payload.task_id,
    });
    agent.state();
    gate.open();
    assert_eq!(place.open(&agent.done(payload.task_id)).outcome, Outcome::Succeeded);
    assert!(place.pretend.snapshot().accounts.is_empty());
}

#[test]
fn a_task_whose_key_is_revoked_turns_back() {
    let (place, gate, mut agent) = gated("ensure_account");
    let clean = place.pretend.snapshot();
    let payload = provision(&place, AllocationId::new());
    agent.offer_good(&place, &payload);
    gate.reached();
    let bundle = place.house.bundle_with(2, |purpose| match purpose {
        Purpose::Allocation => KeyStatus::Revoked,
        _ => KeyStatus::Active,
    });
    assert_eq!(agent.trust(bundle), Ok(2));
    gate.open();
    let result = place.open(&agent.done(payload.task_id));
    assert_eq!((result.outcome, result.code), (Outcome::Failed, Some(Code::KeyRevoked)));
    assert_eq!(place.pretend.snapshot(), clean);
}

#[test]
fn one_user_is_worked_on_by_one_task_at_a_time() {
    let (place, gate, mut agent) = gated("ensure_home");
    let allocation = AllocationId::new();
    let (first, second) = (provision(&place, allocation), deprovision(&place, allocation));
    agent.offer_good(&place, &first);
    gate.reached();
    agent.offer_good(&place, &second);
    assert_eq!(agent.not_taken(second.task_id), Code::ExecutorBusy);
    // What is known already is no new task: the same fence again, and it is not begun twice.
    agent.offer_good(&place, &first);
    let fence = agent.wait("accepted", |said| match said {
        FromExecutor::Accepted { task_id, fence } if task_id == first.task_id => Some(fence),
        _ => None,
    });
    assert_eq!(fence, 101);
    assert_eq!(agent.state().tasks.len(), 1);
    gate.open();
    assert_eq!(place.open(&agent.done(first.task_id)).outcome, Outcome::Succeeded);
    assert_eq!(agent.run(&place, &second).outcome, Outcome::Succeeded);
}

#[test]
fn a_stop_in_the_middle_is_gone_on_from() {
    let (mut place, gate, mut agent) = gated("ensure_keys");
    let payload = provision(&place, AllocationId::new());
    agent.offer_good(&place, &payload);
    gate.reached();
    let half = place.pretend.snapshot();
    let stopping = std::thread::scope(|scope| {
        let stopped = scope.spawn(|| place.stop());
        // It waits for the step that is under way, and begins no other.
        agent.hung_up();
        gate.open();
        stopped.join().expect("no panic")
    });
    stopping.expect("a clean end");
    let after = place.pretend.snapshot();
    assert!(after != half && after.keys.len() == 1, "the step ended");
    place.serve();
    let mut agent = place.connect();
    agent.send(&FromAgent::Results {});
    let result = place.open(&agent.done(payload.task_id));
    assert_eq!((result.outcome, result.undone.len()), (Outcome::Succeeded, 0));
}

/// The order to turn back was only in memory; the next start finds the reason again.
#[test]
fn a_restart_does_not_save_a_task_whose_key_is_revoked() {
    let (mut place, gate, mut agent) = gated("ensure_home");
    let clean = place.pretend.snapshot();
    let payload = provision(&place, AllocationId::new());
    agent.offer_good(&place, &payload);
    gate.reached();
    let bundle = place.house.bundle_with(2, |purpose| match purpose {
        Purpose::Allocation => KeyStatus::Revoked,
        _ => KeyStatus::Active,
    });
    assert_eq!(agent.trust(bundle), Ok(2));
    let stopping = std::thread::scope(|scope| {
        let stopped = scope.spawn(|| place.stop());
        agent.hung_up();
        gate.open();
        stopped.join().expect("no panic")
    });
    stopping.expect("a clean end");
    assert_ne!(place.pretend.snapshot(), clean, "it was half-way");
    place.serve();
    let mut agent = place.connect();
    agent.send(&FromAgent::Results {});
    let result = place.open(&agent.done(payload.task_id));
    assert_eq!((result.outcome, result.code), (Outcome::Failed, Some(Code::KeyRevoked)));
    assert_eq!(place.pretend.snapshot(), clean);
}

/// One operation under two task ids: what the first has made is found, not made again.
#[test]
fn abuse_13_one_operation_two_tasks() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let first = provision(&place, AllocationId::new());
    assert_eq!(agent.run(&place, &first).outcome, Outcome::Succeeded);
    let world = place.pretend.snapshot();
    let (seq, task_id) = (first.seq + 1, derive_task(first.op_id, 1));
    let second = TaskPayload {
        seq,
        task_id,
        ..first.clone()
    };
    let result = agent.run(&place, &second);
    assert_eq!((result.outcome, result.op_id), (Outcome::Succeeded, Some(first.op_id)));
    assert_eq!(place.pretend.snapshot(), world, "one account");
}

#[test]
fn an_agent_that_does_not_read_stops_no_task() {
    let (place, gate, mut agent) = gated("ensure_home");
    let payload = provision(&place, AllocationId::new());
    agent.offer_good(&place, &payload);
    gate.reached();
    // Thousands of answers that nobody takes: more than the socket and the queue hold.
    agent.flood_with_hellos(5_000);
    gate.open();
    let mut another = place.connect();
    another.send(&FromAgent::Results {});
    assert_eq!(place.open(&another.done(payload.task_id)).outcome, Outcome::Succeeded);
}
