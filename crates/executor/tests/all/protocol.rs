//! Offer, accept, progress, done, acknowledge; and what a careless or dead agent does to it.

use host::pretend::Profile;
use model::outcome::Outcome;
use model::signal::Code;
use model::socket::{FromAgent, FromExecutor};
use model::task::{Task, health_probe, topology_discover};
use model::value::MacAddress;

use crate::place::Place;

#[test]
fn a_probe_is_accepted_reported_and_answered() {
    let place = Place::start(Profile::H100x8);
    let mut agent = place.connect();
    let payload = place.house.probe();
    agent.offer_good(&place, &payload);
    let mut heard = Vec::new();
    let envelope = agent.wait("done", |said| match said {
        FromExecutor::Accepted { task_id, fence } => {
            assert_eq!((task_id, fence), (payload.task_id, 101));
            heard.push("accepted".to_owned());
            None
        }
        FromExecutor::Progress { task } => {
            assert!(task.started_at.is_some());
            heard.push(task.phase);
            None
        }
        FromExecutor::Done { envelope, .. } => Some(envelope),
        _ => None,
    });
    assert_eq!(heard, ["accepted", "started", "look"]);
    let result = place.open(&envelope);
    assert_eq!((result.outcome, result.code), (Outcome::Succeeded, None));
    assert_eq!(result.op_id, Some(payload.op_id));
    assert!(result.timings.contains_key("look_ms"));
    let output: health_probe::Output = serde_json::from_str(result.output.expect("an output").get()).expect("typed");
    assert_eq!(
        (output.gpus.len(), output.state_writable, output.clock_skew_ms),
        (8, true, 0)
    );

    let state = agent.state();
    assert_eq!(
        (state.tasks.len(), state.tasks[0].phase.as_str()),
        (1, "result_pending")
    );
    assert_eq!(
        (state.results_pending, state.simulated, state.manifest_version),
        (1, true, 1)
    );
    agent.ack(payload.task_id);
    assert_eq!(agent.state().results_pending, 0);
}

/// A task of its own key, with what root wrote into node.toml.
#[test]
fn a_discovery_is_answered_with_slots() {
    let place = Place::start(Profile::L40sx4);
    let policy = place.dir.join("node.toml");
    let text = std::fs::read_to_string(&policy).expect("enrolled");
    let slices = "slice_cidr = \"10.9.0.0/24\"\novs_bridges = [\"br-slices\"]\n";
    std::fs::write(&policy, format!("{slices}{text}")).expect("written");
    let mut agent = place.connect();
    let payload = place
        .house
        .payload(&Task::TopologyDiscover(topology_discover::Params {}));
    agent.offer_good(&place, &payload);
    let envelope = agent.wait("done", |said| match said {
        FromExecutor::Done { envelope, .. } => Some(envelope),
        _ => None,
    });
    let result = place.open(&envelope);
    assert_eq!(
        (result.outcome, result.code),
        (Outcome::Succeeded, None),
        "{:?}",
        result.detail
    );
    let output: topology_discover::Output =
        serde_json::from_str(result.output.expect("an output").get()).expect("typed");
    assert_eq!(output.candidate_summary.blockers, []);
    let slots = &output.candidate_slots;
    assert_eq!(
        (slots.len(), slots[0].private_ip.to_string().as_str()),
        (4, "10.9.0.10")
    );
    assert_eq!(slots[3].mac_address, MacAddress::of_slot(place.house.node_id, 3));
}

#[test]
fn nonsense_closes_the_connection_and_nothing_else() {
    let place = Place::start(Profile::Cpu);
    let frame = |body: &[u8]| [&(body.len() as u32).to_be_bytes(), body].concat();
    let corpus = [
        vec![0xff; 64],
        frame(b""),
        frame(b"{}"),
        frame(b"{\"run\":{\"command\":\"id\"}}"),
        frame(b"{\"hello\":{\"request_id\":1,\"more\":2}}"),
        frame(&[b'['; 100_000]),
        frame(&[0; 1000]),
        (512_u32 * 1024 + 1).to_be_bytes().to_vec(),
    ];
    for bytes in corpus {
        let mut agent = place.connect();
        agent.send_raw(&bytes);
        agent.hung_up();
    }
    // Half a message, and gone.
    place.connect().send_raw(&frame(b"{\"hello\":{\"request_id\":1}}")[..9]);
    let mut agent = place.connect();
    assert_eq!(agent.run(&place, &place.house.probe()).outcome, Outcome::Succeeded);
}

#[test]
fn the_newest_connection_is_the_one() {
    let place = Place::start(Profile::Cpu);
    let mut old = place.connect();
    assert!(old.state().identity.is_some());
    let mut new = place.connect();
    assert!(new.state().identity.is_some());
    old.hung_up();
    drop(old);
    let payload = place.house.probe();
    assert_eq!(
        new.run(&place, &payload).outcome,
        Outcome::Succeeded,
        "the end of the old one took nothing away"
    );
}

#[test]
fn a_refusal_is_the_same_again_until_it_is_acknowledged() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let mut payload = place.house.probe();
    payload.node_epoch = 9;
    agent.offer_good(&place, &payload);
    let first = agent.done(payload.task_id);
    place.house.clock.advance(5_000);
    agent.send(&FromAgent::Results {});
    assert_eq!(agent.done(payload.task_id), first);
    let state = agent.state();
    assert_eq!(
        (state.results_pending, state.tasks.len()),
        (1, 0),
        "it is not held: it never began"
    );
    agent.send(&FromAgent::Acked {
        task_id: payload.task_id,
        status: 200,
    });
    assert_eq!(agent.state().results_pending, 0);
}

#[test]
fn without_room_nothing_new_is_taken() {
    let mut place = Place::start(Profile::Cpu);
    place.stop().expect("a clean end");
    place.limits.min_free_bytes = u64::MAX;
    place.serve();
    let mut agent = place.connect();
    let payload = place.house.probe();
    agent.offer_good(&place, &payload);
    assert_eq!(agent.not_taken(payload.task_id), Code::NodeDiskLow);
    assert_eq!(agent.state().trouble, Some(Code::NodeDiskLow), "and it says why");
    place.stop().expect("a clean end");
    place.limits.min_free_bytes = 0;
    place.serve();
    assert_eq!(place.connect().state().trouble, None);
    assert_eq!(
        place.connect().run(&place, &payload).outcome,
        Outcome::Succeeded,
        "offered again, it is taken"
    );
}

#[test]
fn there_is_one_executor_per_state_directory() {
    let place = Place::start(Profile::Cpu);
    let error = executor::run(place.options(), executor::Stop::new().expect("an eventfd")).expect_err("refused");
    assert!(format!("{error:#}").starts_with("already_running"), "{error:#}");
    assert!(place.connect().state().identity.is_some(), "the first one serves on");
}
