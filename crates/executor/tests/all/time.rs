//! Tasks at the edges of their time, and nodes whose clock is wrong.

use host::pretend::Profile;
use model::envelope::TaskPayload;
use model::id::AllocationId;
use model::outcome::{Outcome, ResultPayload};
use model::signal::Code;
use model::socket::FromAgent;

use crate::gate::Gate;
use crate::place::{Agent, Place};
use crate::users::provision;

fn verdict(result: &ResultPayload) -> (Outcome, Option<Code>) {
    (result.outcome, result.code)
}

/// A probe issued and to be started this many milliseconds from now.
fn probe(place: &Place, issued_ms: i64, start_by_ms: i64) -> TaskPayload {
    let now = place.house.now();
    let (issued_at, start_by) = (now.plus_ms(issued_ms), now.plus_ms(start_by_ms));
    TaskPayload {
        issued_at,
        start_by,
        ..place.house.probe()
    }
}

#[test]
fn abuse_06_expired() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let refused = |code| (Outcome::Refused, Some(code));
    let good = (Outcome::Succeeded, None);
    // The later ones first: what was accepted is the floor for the rest.
    for (issued_ms, start_by_ms, expected) in [
        (-600_000, -1, refused(Code::StartByPassed)),
        (-600_000, -1_000, refused(Code::StartByPassed)),
        (120_001, 700_000, refused(Code::NotYetValid)),
        (-1, 900_000, refused(Code::LifetimeTooLong)),
        (0, 10 * 365 * 86_400_000, refused(Code::LifetimeTooLong)),
        (-600_000, 0, good),
        (-900_000, 0, good),
        (0, 900_000, good),
    ] {
        let result = agent.run(&place, &probe(&place, issued_ms, start_by_ms));
        assert_eq!(verdict(&result), expected, "issued {issued_ms} start by {start_by_ms}");
    }
    let calls = place.pretend.calls();
    let result = agent.run(&place, &probe(&place, -600_000, -1));
    assert_eq!(
        (verdict(&result), place.pretend.calls()),
        (refused(Code::StartByPassed), calls)
    );
}

fn offer_at(agent: &mut Agent, place: &Place, payload: &TaskPayload, server_off_s: i64) -> ResultPayload {
    let server_time = place.house.now().plus_s(server_off_s);
    let (task_id, envelope) = (payload.task_id, place.house.sign(payload));
    agent.send(&FromAgent::Offer {
        task_id,
        fence: 1,
        envelope,
        server_time,
    });
    place.open(&agent.done(task_id))
}

#[test]
fn abuse_07_clock() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let skewed = (Outcome::Refused, Some(Code::ClockSkew));
    let clean = place.pretend.snapshot();
    for off_s in [121, -121, 86_400, -86_400] {
        let account = provision(&place, AllocationId::new());
        assert_eq!(
            verdict(&offer_at(&mut agent, &place, &account, off_s)),
            skewed,
            "{off_s}"
        );
        assert_eq!(place.pretend.snapshot(), clean);
        // Looking is allowed: somebody has to be able to see that the clock is wrong.
        let result = offer_at(&mut agent, &place, &place.house.probe(), off_s);
        assert_eq!(result.outcome, Outcome::Succeeded);
        assert!(
            result
                .output
                .is_some_and(|output| output.get().contains(&format!("{}", -off_s * 1000)))
        );
    }
    let account = provision(&place, AllocationId::new());
    assert_eq!(offer_at(&mut agent, &place, &account, 120).outcome, Outcome::Succeeded);
    let made = place.pretend.snapshot();
    // Turned back below what was accepted: the floor holds, and what changes the host waits for a right clock.
    place.house.clock.advance(-121_000);
    let account = provision(&place, AllocationId::new());
    assert_eq!(verdict(&offer_at(&mut agent, &place, &account, 0)), skewed);
    assert_eq!(place.pretend.snapshot(), made);
}

/// The offer is right and the node's own clock is not, by more than any task may wait: whatever it is asked, it names its
/// clock, and not the hour of the task.
#[test]
fn abuse_07_clock_of_the_node() {
    for off_ms in [3_600_000, -3_600_000, 86_400_000] {
        let place = Place::start(Profile::Cpu);
        let mut agent = place.connect();
        let (server_time, clean) = (place.house.now(), place.pretend.snapshot());
        let asked = [provision(&place, AllocationId::new()), place.house.probe()];
        place.house.clock.advance(off_ms);
        for payload in asked {
            let (task_id, envelope) = (payload.task_id, place.house.sign(&payload));
            agent.send(&FromAgent::Offer {
                task_id,
                fence: 1,
                envelope,
                server_time,
            });
            let skewed = (Outcome::Refused, Some(Code::ClockSkew));
            assert_eq!(
                verdict(&place.open(&agent.done(task_id))),
                skewed,
                "{off_ms}: {payload:?}"
            );
        }
        assert_eq!(place.pretend.snapshot(), clean);
    }
}

/// abuse 7, too: the clock jumps while a task runs. How long it ran is not asked of that clock.
#[test]
fn a_jump_of_the_clock_disturbs_no_running_task() {
    for jump_ms in [86_400_000, -86_400_000] {
        let mut place = Place::start(Profile::Cpu);
        place.stop().expect("a clean end");
        let gate = Gate::before("ensure_home", &place.pretend);
        place.users = Some(gate.clone());
        place.serve();
        let mut agent = place.connect();
        let payload = provision(&place, AllocationId::new());
        agent.offer_good(&place, &payload);
        gate.reached();
        place.house.clock.advance(jump_ms);
        gate.open();
        let result = place.open(&agent.done(payload.task_id));
        assert_eq!(result.outcome, Outcome::Succeeded, "{jump_ms}: {:?}", result.detail);
    }
}
