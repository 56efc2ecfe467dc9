//! The same for the agent: every call by which it changes something on disk while it starts, enrols, runs a task and
//! renews. Its node is a real one of a real control plane, a new one for every fault, because an identity that was
//! copied is a clone. Afterwards a healthy agent goes on from the same directory: identity readable, the task done
//! once, no alarm, nothing left.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::identity::Slots;
use base::config::Config;
use base::testing::eventually;
use dev::simnode::{NodeDir, SimNode};
use dev::town::Town;
use host::pretend::Profile;
use model::api::{Enrolment, TaskView};
use model::id::{NodeId, TaskId};
use model::state::{NodeState, TaskState};
use serde_json::json;
use tokio::task::{JoinHandle, JoinSet};
use wire::stop::Stop;

use super::legs::Here;
use super::strace::{self, Fault, From, Point, Trace};
use super::{Held, TRIES, hindered, is_log, sort};
use crate::EXE;

const JOURNAL_BYTES: u64 = 64 << 10;
/// At a time: a run waits far more than it works.
const AT_ONCE: usize = 8;

/// Half of it has passed soon after the agent is there: then it renews.
fn hasty(config: &mut Config) {
    config.wait_hold_s = 1;
    config.working_cert_life_s = 4;
    config.probe_every_s = 1_000_000;
    config.heartbeat_stale_s = 1_000_000;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leg {
    /// Makes its slots and waits for a handoff that does not come.
    FirstStart,
    /// Slots are there, and a handoff.
    Enrol,
    /// Enrolled: runs a task and renews.
    Serve,
}

impl Leg {
    const ALL: [Leg; 3] = [Leg::FirstStart, Leg::Enrol, Leg::Serve];
}

/// A node of one run.
struct Place {
    dir: PathBuf,
    node: NodeDir,
    enrolment: Enrolment,
    executor: Option<Here>,
}

impl Place {
    async fn new(town: &Town, name: &str) -> Self {
        let enrolment = town.add_node(name).await;
        let dir = town.dir().join(name);
        let node = NodeDir::new(&dir).expect("a directory");
        SimNode::enrol(&node, Profile::Cpu, &enrolment.token).expect("the host takes the token");
        let executor = Some(Here::serve(&dir, Profile::Cpu, JOURNAL_BYTES).expect("it starts"));
        Self {
            dir,
            node,
            enrolment,
            executor,
        }
    }

    fn id(&self) -> NodeId {
        self.enrolment.node.id
    }

    /// A healthy agent, in this process.
    fn healthy(&self) -> (Stop, JoinHandle<anyhow::Result<()>>) {
        let (options, stop) = (self.node.agent_options(), Stop::new());
        let told = stop.clone();
        (stop, tokio::spawn(async move { agent::run(options, told).await }))
    }

    fn generation(&self) -> u64 {
        let kept = Slots::peek(&self.node.agent()).ok();
        let identity = kept.and_then(|kept| kept.identity);
        identity.map_or(0, |identity| identity.working.generation)
    }

    fn handoff(&self) -> PathBuf {
        self.node.agent().join("enrolment")
    }

    /// What is there when the agent begins.
    async fn prepare(&self, town: &Town, leg: Leg) -> Option<TaskId> {
        match leg {
            Leg::FirstStart => {
                std::fs::rename(self.handoff(), self.dir.join("later")).expect("there");
                None
            }
            Leg::Enrol => {
                drop(Slots::open(&self.node.agent()).expect("made"));
                None
            }
            Leg::Serve => {
                let (stop, agent) = self.healthy();
                town.until_node(self.id(), NodeState::Ready).await;
                stop.trigger();
                agent.await.expect("no panic").expect("a clean end");
                let path = format!("/v1/nodes/{}/probe", self.id());
                let task: TaskView = town.api().post(&path, &json!({})).await.expect("a probe");
                Some(task.id)
            }
        }
    }

    /// Has the agent done all that this leg is about?
    async fn reached(&self, town: &Town, leg: Leg, task: Option<TaskId>, generation: u64) -> bool {
        match leg {
            // The second one is made last, and as long as it will ever be.
            Leg::FirstStart => {
                let second = std::fs::metadata(self.node.agent().join("identity.b"));
                second.is_ok_and(|file| file.len() == agent::identity::SLOT_BYTES as u64)
                    && std::fs::read_to_string(self.dir.join(strace::SAID)).is_ok_and(|log| log.contains("waiting for"))
            }
            // It looks at its disk for its first self-probe, which the control plane then has.
            Leg::Enrol => {
                self.generation() > 0
                    && !self.handoff().exists()
                    && town.show_node(self.id()).await.self_probe.is_some()
            }
            Leg::Serve => {
                let Some(task) = task else { return true };
                let view: TaskView = town.api().get(&format!("/v1/tasks/{task}")).await.expect("the task");
                view.state.is_end() && self.generation() > generation
            }
        }
    }
}

/// One run under strace, until it has got where it was going or has died.
async fn run(town: &Town, place: &Place, leg: Leg, fault: Option<(&Point, Fault)>) -> (Trace, Option<TaskId>, bool) {
    let task = place.prepare(town, leg).await;
    let generation = place.generation();
    let dir = place.dir.display().to_string();
    let program = [EXE, "agent", "--dir", &dir].map(str::to_owned).to_vec();
    let (child, trace) = strace::start(&place.dir, &From::Start(program), fault).expect("strace starts");
    let mut child = Held(child);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    let mut often = tokio::time::interval(Duration::from_millis(20));
    // A fault may keep it from ever getting there, alive: then time is up.
    while !child.ended() && tokio::time::Instant::now() < deadline {
        if place.reached(town, leg, task, generation).await {
            break;
        }
        often.tick().await;
    }
    let died = child.ended();
    tokio::task::spawn_blocking(move || drop(child))
        .await
        .expect("no panic");
    (trace, task, died)
}

/// Everything that has to hold after a fault, or what does not.
async fn judge(town: &Town, mut place: Place, leg: Leg, task: Option<TaskId>) -> Result<(), String> {
    if leg == Leg::FirstStart {
        std::fs::rename(place.dir.join("later"), place.handoff()).map_err(|error| error.to_string())?;
    }
    let (stop, agent) = place.healthy();
    let view = town.until_node(place.id(), NodeState::Ready).await;
    if view.epoch != 1 {
        return Err(format!("epoch {}", view.epoch));
    }
    if let Some(task) = task {
        let task = town.until_task(task, TaskState::is_end).await;
        if task.state != TaskState::Succeeded {
            return Err(format!("{task:?}"));
        }
    }
    let before = place.generation();
    eventually("it renews", async || {
        let now = place.generation();
        if now > before {
            Ok(())
        } else {
            Err(format!("generation {now}"))
        }
    })
    .await;
    stop.trigger();
    agent
        .await
        .map_err(|error| error.to_string())?
        .map_err(|error| format!("{error:#}"))?;
    let executor = place.executor.take().expect("ended once");
    let state = executor.talk().map_err(|error| format!("{error:#}"))?.state();
    let state = state.map_err(|ended| format!("{ended}"))?;
    if !state.tasks.is_empty() || state.results_pending > 0 {
        return Err(format!("{state:?}"));
    }
    executor.end().map_err(|error| format!("{error:#}"))?;
    let mut left: Vec<String> = names(&place.node.agent());
    left.extend(names(&place.node.agent().join("diag")));
    if left != ["diag", "identity.a", "identity.b"] {
        return Err(format!("left: {left:?}"));
    }
    std::fs::remove_dir_all(&place.dir).map_err(|error| error.to_string())
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

async fn one(town: &Town, name: String, leg: Leg, point: &Point, fault: Fault) -> Result<(), String> {
    for attempt in 0..TRIES {
        let place = Place::new(town, &format!("{name}-{attempt}")).await;
        let (trace, task, died) = run(town, &place, leg, Some((point, fault))).await;
        let fired = trace.fired(fault, died);
        judge(town, place, leg, task).await?;
        if fired {
            return Ok(());
        }
    }
    Err("the fault never happened".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_of_the_agent_can_lose_its_identity_or_a_task() {
    let town = Arc::new(Town::tuned(EXE, hasty).await);
    if let Some(why) = hindered(town.dir()) {
        Arc::into_inner(town).expect("ours alone").end().await;
        eprintln!("not run: {why}");
        return;
    }
    let (mut injected, mut bad) = (0, Vec::new());
    for leg in Leg::ALL {
        let began = tokio::time::Instant::now();
        let place = Place::new(&town, &format!("look-{}", leg as u8)).await;
        let (trace, task, _) = run(&town, &place, leg, None).await;
        let (points, shadowed) = sort(&trace.seen(&place.dir));
        judge(&town, place, leg, task)
            .await
            .unwrap_or_else(|why| panic!("{leg:?}: {why}"));
        // How often it looks at its disk depends on time; each look is like the first.
        let regular = |point: &Point| !is_log(point) && !looks_at_disk(point);
        let points: Vec<Point> = points
            .into_iter()
            .filter(|point| regular(point) || point.number == 1)
            .collect();
        let shadowed: Vec<_> = shadowed.iter().filter(|point| regular(point)).collect();
        assert!(shadowed.is_empty(), "{leg:?}: out of reach: {shadowed:?}");
        let mut jobs: Vec<(Point, Fault)> = Vec::new();
        for point in &points {
            jobs.extend(Fault::ALL.map(|fault| (point.clone(), fault)));
        }
        let planned = jobs.len();
        let (mut running, mut tried) = (JoinSet::new(), 0);
        let mut jobs = jobs.into_iter().enumerate();
        let mut wrong = 0;
        loop {
            while running.len() < AT_ONCE
                && let Some((number, (point, fault))) = jobs.next()
            {
                let town = town.clone();
                running.spawn(async move {
                    let outcome = one(&town, format!("n{}-{number}", leg as u8), leg, &point, fault).await;
                    (point, fault, outcome)
                });
            }
            let Some(done) = running.join_next().await else { break };
            let (point, fault, outcome) = done.expect("no panic");
            tried += 1;
            if let Err(why) = outcome {
                wrong += 1;
                bad.push(format!("{leg:?}: {point:?} {fault:?}: {why}"));
            }
        }
        assert_eq!(tried, planned, "every fault was tried");
        injected += planned;
        eprintln!(
            "{planned:>5} faults, {wrong:>3} bad, {:>5.1} s  agent: {leg:?}",
            began.elapsed().as_secs_f32()
        );
    }
    assert!(
        bad.is_empty(),
        "{} of {injected} faults went wrong:\n{}",
        bad.len(),
        bad.join("\n")
    );
    assert!(
        injected >= 60,
        "only {injected} faults: the trace has lost sight of the agent"
    );
    Arc::into_inner(town).expect("ours alone").end().await;
}

fn looks_at_disk(point: &Point) -> bool {
    point.path.as_ref().is_some_and(|path| path.starts_with("agent/diag"))
}
