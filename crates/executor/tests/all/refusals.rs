//! What this node has signed, it stands by: a refusal stays one whatever changes afterwards, and what runs or is done
//! gets no other verdict.

use host::pretend::Profile;
use model::dsse::Envelope;
use model::envelope::TaskPayload;
use model::id::AllocationId;
use model::key::SigningKey;
use model::outcome::Outcome;
use model::signal::Code;
use model::socket::{FromAgent, FromExecutor};
use model::trust::{Bundle, KeyStatus, Purpose};

use crate::gate::Gate;
use crate::place::{Agent, Place, read};
use crate::users::provision;

fn revoked(place: &Place, version: u64) -> Bundle {
    place.house.bundle_with(version, |purpose| match purpose {
        Purpose::Allocation => KeyStatus::Revoked,
        _ => KeyStatus::Active,
    })
}

/// Offered again and again, before and after a restart and an acknowledgement, these bytes get this answer.
fn stands(place: &mut Place, payload: &TaskPayload, first: &Envelope) {
    let (world, calls) = (place.pretend.snapshot(), place.pretend.calls());
    for round in 0..3 {
        let mut agent = place.connect();
        agent.offer_good(place, payload);
        assert_eq!(agent.done(payload.task_id), *first, "round {round}");
        if round == 1 {
            let (task_id, status) = (payload.task_id, 200);
            agent.send(&FromAgent::Acked { task_id, status });
            agent.state(); // answered in order: it has been heard
        }
        place.restart();
    }
    assert_eq!((place.pretend.snapshot(), place.pretend.calls()), (world, calls));
}

fn refused(agent: &mut Agent, place: &Place, payload: &TaskPayload, code: Code) -> Envelope {
    agent.offer_good(place, payload);
    let envelope = agent.done(payload.task_id);
    let result = place.open(&envelope);
    assert_eq!((result.outcome, result.code), (Outcome::Refused, Some(code)));
    assert_eq!(result.op_id, Some(payload.op_id));
    envelope
}

#[test]
fn a_refusal_outlives_a_change_of_local_policy() {
    let mut place = Place::start(Profile::Cpu);
    let policy = place.dir.join("node.toml");
    let before = String::from_utf8(read(&policy)).expect("text");
    let narrow = format!("{before}allowed_task_types = [\"diag.health_probe\"]\n");
    std::fs::write(&policy, narrow).expect("written");
    let payload = provision(&place, AllocationId::new());
    let first = refused(&mut place.connect(), &place, &payload, Code::TypeNotAllowedHere);
    std::fs::write(&policy, before).expect("written");
    stands(&mut place, &payload, &first);
    let next = provision(&place, AllocationId::new());
    assert_eq!(place.connect().run(&place, &next).outcome, Outcome::Succeeded);
}

#[test]
fn a_refusal_outlives_a_change_of_keys() {
    let mut place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    assert_eq!(agent.trust(revoked(&place, 2)), Ok(2));
    let payload = provision(&place, AllocationId::new());
    let first = refused(&mut agent, &place, &payload, Code::KeyRevoked);
    assert_eq!(agent.trust(place.house.bundle(3)), Ok(3));
    stands(&mut place, &payload, &first);
}

#[test]
fn a_refusal_outlives_a_change_of_time() {
    let mut place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let now = place.house.now();
    let early = TaskPayload {
        issued_at: now.plus_s(121),
        start_by: now.plus_s(700),
        ..provision(&place, AllocationId::new())
    };
    let first = refused(&mut agent, &place, &early, Code::NotYetValid);
    let skewed = provision(&place, AllocationId::new());
    let (task_id, envelope, server_time) = (skewed.task_id, place.house.sign(&skewed), now.plus_s(-121));
    agent.send(&FromAgent::Offer {
        task_id,
        fence: 1,
        envelope,
        server_time,
    });
    let second = agent.done(task_id);
    assert_eq!(place.open(&second).code, Some(Code::ClockSkew));
    place.house.clock.advance(200_000);
    stands(&mut place, &early, &first);
    stands(&mut place, &skewed, &second);
}

#[test]
fn what_runs_or_is_done_is_not_refused_when_its_key_is_revoked() {
    let mut place = Place::start(Profile::Cpu);
    place.stop().expect("a clean end");
    let gate = Gate::before("ensure_keys", &place.pretend);
    place.users = Some(gate.clone());
    place.serve();
    let mut agent = place.connect();
    let payload = provision(&place, AllocationId::new());
    agent.offer_good(&place, &payload);
    gate.reached();
    assert_eq!(agent.trust(revoked(&place, 2)), Ok(2));
    agent.offer_good(&place, &payload);
    let fence = agent.wait("accepted, not refused", |said| match said {
        FromExecutor::Accepted { task_id, fence } if task_id == payload.task_id => Some(fence),
        FromExecutor::Done { .. } | FromExecutor::NotTaken { .. } => panic!("{said:?}"),
        _ => None,
    });
    assert_eq!(fence, 101, "as it was taken");
    gate.open();
    let first = agent.done(payload.task_id);
    let result = place.open(&first);
    assert_eq!((result.outcome, result.code), (Outcome::Failed, Some(Code::KeyRevoked)));
    stands(&mut place, &payload, &first);
}

#[test]
fn a_key_that_is_not_known_yet_is_waited_for_once() {
    let mut place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let newcomer = SigningKey::generate();
    let (early, late) = (place.house.probe(), place.house.probe());
    for payload in [&early, &late] {
        agent.offer(&place, payload.task_id, payload.sign(&newcomer));
        assert_eq!(agent.not_taken(payload.task_id), Code::KeyUnknown);
    }
    // Documents have come, and the key is not in them: a forgery, as far as anybody can tell.
    assert_eq!(agent.trust(place.house.bundle(1)), Ok(1));
    agent.offer(&place, late.task_id, late.sign(&newcomer));
    let first = agent.done(late.task_id);
    assert_eq!(place.open(&first).code, Some(Code::KeyUnknown));
    let (delegation, mut manifest) = place.house.documents(2);
    let listed = manifest.keys.iter_mut().find(|key| key.purposes == [Purpose::Diag]);
    let listed = listed.expect("a key for probes");
    (listed.keyid, listed.public) = (newcomer.keyid(), newcomer.public());
    assert_eq!(agent.trust(place.house.seal(&delegation, &manifest)), Ok(2));
    agent.offer(&place, early.task_id, early.sign(&newcomer));
    let result = place.open(&agent.done(early.task_id));
    assert_eq!(result.outcome, Outcome::Succeeded, "nothing final had been said");
    let calls = place.pretend.calls();
    agent.offer(&place, late.task_id, late.sign(&newcomer));
    assert_eq!(agent.done(late.task_id), first);
    assert_eq!(place.pretend.calls(), calls);
    place.stop().expect("a clean end");
}
