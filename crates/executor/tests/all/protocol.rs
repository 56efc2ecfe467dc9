//! Offer, accept, progress, done, acknowledge; and what a careless or dead agent does to it.

use host::pretend::Profile;
use model::outcome::Outcome;
use model::socket::FromExecutor;
use model::task::health_probe;

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
