//! The whole thread: a token becomes an identity, a task becomes a result, and neither is lost on the way.

use std::sync::Arc;
use std::time::Duration;

use agent::identity::Slots;
use agent::{Options, Pace};
use tokio::task::JoinHandle;
use wire::stop::Stop;

use crate::control::Control;
use crate::executor::{Executor, Running};
use crate::place::Place;

fn brisk() -> Pace {
    let ms = Duration::from_millis;
    Pace {
        retry: (ms(10), ms(50)),
        spread: ms(50),
        executor_retry: (ms(5), ms(20)),
        handoff: ms(10),
        slow: ms(50),
        superseded: ms(10),
        recheck: ms(50),
        renewal_spacing: ms(50),
        probe_spacing: ms(10),
        fetch_patience: ms(300),
        ..Pace::default()
    }
}

pub(crate) struct Town {
    pub(crate) control: Arc<Control>,
    pub(crate) executor: Executor,
    _running: Running,
    pub(crate) place: Place,
}

pub(crate) struct Agent {
    stop: Stop,
    running: JoinHandle<anyhow::Result<()>>,
}

impl Town {
    pub(crate) async fn new() -> Self {
        Self::with("gpuaas CA", false).await
    }

    async fn with(ca: &str, real: bool) -> Self {
        let place = Place::new();
        let mut executor = Executor::new(place.path());
        executor.real = real;
        let running = executor.start();
        Self {
            control: Control::start(ca).await,
            executor,
            _running: running,
            place,
        }
    }

    pub(crate) fn start(&self) -> Agent {
        let mut options = Options::new(self.place.path().join("agent"), self.executor.path.clone());
        options.pace = brisk();
        options.image_ca_file = Some(self.place.path().join("ca.pem"));
        let stop = Stop::new();
        Agent {
            running: tokio::spawn(agent::run(options, stop.clone())),
            stop,
        }
    }

    pub(crate) fn hand_over(&self, token: &str) {
        std::fs::create_dir_all(self.place.path().join("agent")).expect("state");
        std::fs::write(self.handoff(), token).expect("handoff");
    }

    fn handoff(&self) -> std::path::PathBuf {
        self.place.path().join("agent/enrolment")
    }

    /// Until the agent has taken the handoff away.
    async fn put_away(&self) {
        let gone = async {
            while self.handoff().exists() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone)
            .await
            .expect("the handoff is put away");
    }

    fn generation(&self) -> u64 {
        let kept = Slots::peek(&self.place.path().join("agent")).expect("slots");
        kept.identity.expect("enrolled").working.generation
    }
}

impl Agent {
    pub(crate) async fn end(self) {
        self.stop.trigger();
        self.running.await.expect("no panic").expect("a clean end");
    }

    /// As kill -9 would, as far as a task can be.
    async fn kill(self) {
        self.running.abort();
        assert!(self.running.await.expect_err("killed").is_cancelled());
    }
}

#[tokio::test]
async fn a_token_becomes_a_node_and_a_task_becomes_a_result() {
    let town = Town::new().await;
    let agent = town.start();
    town.hand_over(&town.control.token());
    town.executor.journal.until("enrolled epoch 1", 1).await;
    town.control.journal.until("session", 1).await;
    town.control.journal.until("probe ok=true", 1).await;
    assert!(!town.handoff().exists());

    let probes = town.control.journal.count("probe");
    let task = town.control.queue("diag.health_probe");
    town.executor.journal.until(&format!("acked {task} 200"), 1).await;
    assert_eq!(town.executor.journal.count("offer"), 1);
    assert_eq!(town.control.journal.count("result"), 1);
    assert!(
        town.control.journal.count("probe") > probes,
        "a health probe's result follows a fresh look"
    );
    assert!(town.control.journal.in_order("wait", "result"));
    agent.end().await;
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_with_the_same_keys() {
    let town = Town::new().await;
    town.control.knobs().lose_enrolments = 2;
    town.hand_over(&town.control.token());
    let agent = town.start();
    town.control.journal.until("enroll", 1).await;
    agent.kill().await;
    let agent = town.start();
    town.control.journal.until("session", 1).await;
    let attempts = town.control.journal.lines("enroll");
    assert!(attempts.len() >= 3, "{attempts:?}");
    assert!(attempts.iter().all(|attempt| *attempt == attempts[0]), "{attempts:?}");
    agent.end().await;
}

#[tokio::test]
async fn a_real_machine_refuses_a_development_ca_before_it_says_its_secret() {
    let town = Town::with("gpuaas DEV CA", true).await;
    town.hand_over(&town.control.token());
    let agent = town.start();
    town.put_away().await;
    assert_eq!(town.control.journal.count("enroll"), 0);
    agent.end().await;
}

#[tokio::test]
async fn nonsense_in_the_handoff_is_put_away() {
    let town = Town::new().await;
    town.hand_over("not a token");
    let agent = town.start();
    town.put_away().await;
    town.hand_over(&town.control.token());
    town.control.journal.until("session", 1).await;
    agent.end().await;
}

#[tokio::test]
async fn results_are_posted_until_they_are_answered_for_good() {
    let town = Town::new().await;
    town.hand_over(&town.control.token());
    let agent = town.start();
    town.control.knobs().results = [500, 503, 200].into();
    let lands = town.control.queue("test.lands");
    town.executor.journal.until(&format!("acked {lands} 200"), 1).await;
    assert_eq!(town.control.journal.count(&format!("result {lands}")), 3);

    town.control.knobs().results = [409].into();
    let conflicts = town.control.queue("test.conflicts");
    town.executor.journal.until(&format!("acked {conflicts} 409"), 1).await;
    assert_eq!(town.control.journal.count(&format!("result {conflicts}")), 1);
    agent.end().await;
}

#[tokio::test]
async fn a_killed_agent_loses_no_result() {
    let town = Town::new().await;
    town.hand_over(&town.control.token());
    let agent = town.start();
    // Never answered for good while this agent lives.
    town.control.knobs().results = std::iter::repeat_n(500, 10_000).collect();
    let task = town.control.queue("test.task");
    town.control.journal.until(&format!("result {task} 500"), 2).await;
    town.control.journal.until(&format!("heartbeat {task}"), 1).await;
    agent.kill().await;
    town.control.knobs().results.clear();
    let agent = town.start();
    town.executor.journal.until(&format!("acked {task} 200"), 1).await;
    assert_eq!(town.executor.journal.count("offer"), 1);
    agent.end().await;
}

#[tokio::test]
async fn a_newer_manifest_goes_before_the_task() {
    let town = Town::new().await;
    town.hand_over(&town.control.token());
    let agent = town.start();
    town.control.journal.until("session", 1).await;
    town.control.knobs().manifest = 2;
    let task = town.control.queue("test.task");
    town.executor.journal.until(&format!("acked {task} 200"), 1).await;
    assert!(town.executor.journal.in_order("trust 2", "offer"));
    assert_eq!(town.control.journal.count("trust"), 1);
    agent.end().await;
}

#[tokio::test]
async fn certificates_are_renewed_by_the_clock_under_load() {
    let town = Town::new().await;
    town.control.knobs().life_ms = 3_000;
    town.hand_over(&town.control.token());
    let agent = town.start();
    for generation in 1..=3 {
        // Renewing generation n means that n was received, kept and is in use.
        town.control
            .journal
            .until(&format!("renewal generation {generation}"), 1)
            .await;
        let task = town.control.queue("test.task");
        town.executor.journal.until(&format!("acked {task} 200"), 1).await;
    }
    agent.end().await;
    assert!(town.generation() >= 3, "kept what is used: {}", town.generation());
}

/// What could not be used is never all that is kept: the node goes on with what it has, and so does its next start.
#[tokio::test]
async fn a_renewal_that_is_of_no_use_is_not_kept() {
    let town = Town::new().await;
    town.control.knobs().life_ms = 3_000;
    town.control.knobs().spoil = 2;
    town.hand_over(&town.control.token());
    let agent = town.start();
    town.control.journal.until("renewal spoiled", 1).await;
    let held = town.generation();
    agent.kill().await;
    let agent = town.start();
    town.control.journal.until("renewal spoiled", 2).await;
    assert_eq!(town.generation(), held, "a spoiled one is not kept");
    // The third one is good.
    town.control
        .journal
        .until(&format!("renewal generation {held}"), 3)
        .await;
    let task = town.control.queue("test.task");
    town.executor.journal.until(&format!("acked {task} 200"), 1).await;
    agent.end().await;
}

#[tokio::test]
async fn a_lapsed_certificate_and_a_wrong_clock_heal_by_the_same_road() {
    let town = Town::new().await;
    town.control.knobs().life_ms = -600_000;
    town.control.knobs().skew = 1;
    town.hand_over(&town.control.token());
    let agent = town.start();
    town.control.journal.until("renewal skewed", 1).await;
    town.control.knobs().life_ms = 86_400_000;
    town.control.journal.until("session", 1).await;
    assert_eq!(town.control.journal.count("renewal skewed"), 1);
    assert!(town.control.journal.lines("renewal generation")[0].ends_with("as told"));
    let task = town.control.queue("test.task");
    town.executor.journal.until(&format!("acked {task} 200"), 1).await;
    agent.end().await;
}

#[tokio::test]
async fn a_superseded_session_leaves_and_does_not_fight() {
    let town = Town::new().await;
    town.hand_over(&town.control.token());
    let agent = town.start();
    town.control.journal.until("wait", 1).await;
    town.control.knobs().superseded = true;
    let ended = agent.running.await.expect("no panic");
    assert_eq!(ended.expect_err("for the supervisor").to_string(), "session_superseded");
    assert_eq!(town.control.journal.count("wait superseded"), 1);
}
