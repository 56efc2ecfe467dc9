//! The long-poll: open a session, wait for tasks, hand them to the executor, say at once that they are held. When
//! refused it slows down as it is told; when another session has taken over it leaves and does not fight.

use std::time::Duration;

use model::node_api::{OfferedTask, PROTOCOL, SessionRequest, Versions, WaitAnswer};
use model::socket::ExecutorState;
use model::task::TaskType;
use serde::Deserialize;
use tokio::time::Instant;
use wire::retry::jittered;
use wire::stop::Stop;

use crate::api::{CallError, Known, Meta};
use crate::executor::{ExecutorError, Verdict};
use crate::node::Node;
use crate::pace::{Next, Pauses, next};
use crate::{VERSION, beat};

/// A wait that comes back empty was held longer than this.
const HELD_LEAST: Duration = Duration::from_millis(500);

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Stopped,
    Superseded,
}

pub(crate) async fn run(node: &Node, stop: &Stop) -> Ended {
    let mut poll = Poll {
        node,
        opened: None,
        refused_manifest: None,
        refused_catalogue: None,
        pauses: Pauses::new(&node.pace),
    };
    loop {
        let Some(outcome) = stop.or(poll.round()).await else {
            return Ended::Stopped;
        };
        let pause = match outcome {
            Ok(()) => continue,
            Err(Pause::Superseded) => return Ended::Superseded,
            Err(Pause::For(pause)) => pause,
        };
        if stop.or(tokio::time::sleep(pause)).await.is_none() {
            return Ended::Stopped;
        }
    }
}

struct Poll<'a> {
    node: &'a Node,
    /// What the session that is open was told of the executor.
    opened: Option<SessionRequest>,
    /// A manifest that the executor would not have; it is not fetched again.
    refused_manifest: Option<u64>,
    refused_catalogue: Option<u64>,
    pauses: Pauses,
}

enum Pause {
    For(Duration),
    Superseded,
}

impl Poll<'_> {
    /// One wait and what follows from it.
    async fn round(&mut self) -> Result<(), Pause> {
        let state = self.executor_or_ping().await;
        self.open(&state).await?;
        if state.trouble.is_some() {
            return Err(self.troubled().await);
        }
        let (asked, before) = (Instant::now(), self.known());
        let (answer, meta) = match self.node.api.wait(self.node.pace.wait, before).await {
            Ok(answered) => answered,
            Err(error) => return Err(self.failed("wait", &error)),
        };
        self.node.note_poll(true);
        self.pauses.answered();
        self.catch_up(meta).await;
        let untaken = match answer {
            // There was a newer document, which the executor has by now.
            None if self.known() != before => false,
            // Nothing, and at once: something between us does not hold requests.
            None if asked.elapsed() < HELD_LEAST => return Err(Pause::For(jittered(HELD_LEAST, 0.2))),
            None => false,
            Some(answer) => self.take(answer, meta).await,
        };
        if untaken {
            // Asked again at once it would be offered again at once.
            return Err(Pause::For(self.pauses.again()));
        }
        self.pauses.settled();
        Ok(())
    }

    /// Without the executor no task is claimed: it could not be handed over. A ping shows that the agent lives.
    async fn executor_or_ping(&self) -> std::sync::Arc<ExecutorState> {
        loop {
            tokio::select! {
                state = self.node.executor.connected() => return state,
                () = tokio::time::sleep(self.node.heartbeat()) => {
                    if let Err(error) = self.node.api.ping().await {
                        tracing::warn!(reason = error.word(), "ping without executor");
                    }
                }
            }
        }
    }

    /// An executor that takes nothing is not offered anything; the agent lives and asks how it is.
    async fn troubled(&self) -> Pause {
        if let Err(error) = self.node.api.ping().await {
            tracing::warn!(reason = error.word(), "ping without claims");
        }
        let trouble = match self.node.executor.hello().await {
            Ok(state) => state.trouble,
            Err(_) => None,
        };
        if let Some(code) = trouble {
            tracing::error!(%code, recovery = code.recovery(), "the executor takes no tasks");
        }
        Pause::For(jittered(self.node.heartbeat(), 0.2))
    }

    /// Opens the session, and again when the executor came back as another build.
    async fn open(&mut self, state: &ExecutorState) -> Result<(), Pause> {
        let request = SessionRequest {
            session_id: self.node.api.session_id(),
            boot_id: state.boot_id.clone(),
            hardware: state.hardware.clone(),
            versions: Versions {
                agent: VERSION.to_owned(),
                executor: state.version.clone(),
                protocol: PROTOCOL,
            },
            simulated: state.simulated,
            task_types: state.task_types.clone(),
            manifest_version: state.manifest_version,
        };
        if self.opened.as_ref().is_some_and(|opened| same_build(opened, &request)) {
            return Ok(());
        }
        match self.node.api.session(&request).await {
            Ok(answer) => {
                self.node.keep_time(&answer);
                tracing::info!(session_id = %request.session_id, protocol = answer.protocol, "session open");
                self.opened = Some(request);
                Ok(())
            }
            Err(error) => Err(self.failed("session", &error)),
        }
    }

    /// What the executor has. Not said while it refuses a newer one: the wait would end at once, again and again.
    fn known(&self) -> Known {
        let Some(state) = self.node.executor.state() else {
            return Known::default();
        };
        let said = |known: u64, refused: Option<u64>| refused.is_none_or(|refused| refused <= known).then_some(known);
        Known {
            manifest: said(state.manifest_version, self.refused_manifest),
            catalogue: state
                .catalogue_version
                .and_then(|known| said(known, self.refused_catalogue)),
        }
    }

    /// Newer documents go to the executor before the tasks that may need them.
    async fn catch_up(&mut self, meta: Meta) {
        self.catch_up_manifest(meta).await;
        self.catch_up_catalogue(meta).await;
    }

    /// An executor that says nothing of a catalogue is of a build that has none.
    async fn catch_up_catalogue(&mut self, meta: Meta) {
        let known = self.node.executor.state().and_then(|state| state.catalogue_version);
        let (Some(offered), Some(known)) = (meta.catalogue_version, known) else {
            return;
        };
        if offered <= known || self.refused_catalogue == Some(offered) {
            return;
        }
        match self.node.api.catalogue().await {
            Err(error) => tracing::warn!(
                catalogue = offered,
                reason = error.word(),
                "image catalogue not fetched"
            ),
            Ok(catalogue) => match self.node.executor.catalogue(catalogue).await {
                Ok(version) => tracing::info!(catalogue = version, "image catalogue handed over"),
                Err(error) => {
                    tracing::error!(catalogue = offered, %error, "image catalogue not taken");
                    if matches!(error, ExecutorError::Refused { .. }) {
                        self.refused_catalogue = Some(offered);
                    }
                }
            },
        }
    }

    async fn catch_up_manifest(&mut self, meta: Meta) {
        let known = self.node.executor.state().map_or(0, |state| state.manifest_version);
        let Some(offered) = meta
            .manifest_version
            .filter(|offered| *offered > known && self.refused_manifest != Some(*offered))
        else {
            return;
        };
        match self.node.api.trust().await {
            Err(error) => tracing::warn!(manifest = offered, reason = error.word(), "trust not fetched"),
            Ok(bundle) => match self.node.executor.trust(bundle).await {
                Ok(version) => {
                    tracing::info!(manifest = version, "trust handed over");
                    // Another delegation may name another key for the catalogue: then it has none now.
                    self.refused_catalogue = None;
                    self.node.executor.hello().await.ok();
                }
                Err(error) => {
                    tracing::error!(manifest = offered, %error, "trust not taken");
                    if matches!(error, ExecutorError::Refused { .. }) {
                        self.refused_manifest = Some(offered);
                    }
                }
            },
        }
    }

    /// Hands tasks over and names them to the control plane. Says whether one was not taken.
    async fn take(&self, answer: WaitAnswer, meta: Meta) -> bool {
        beat::cancel(self.node, answer.cancel);
        let server_time = meta.server_time.unwrap_or_else(|| self.node.api.server_time());
        let mut untaken = false;
        for task in answer.tasks {
            let task_id = task.task_id;
            if asks_for_health(&task) {
                self.node.note_health_probe(task_id);
            }
            match self.node.executor.offer(task, server_time).await {
                Ok(Verdict::Taken) => tracing::info!(%task_id, "task handed over"),
                Ok(Verdict::NotTaken(code)) => {
                    tracing::warn!(%task_id, %code, "task not taken");
                    untaken = true;
                }
                Err(error) => {
                    tracing::warn!(%task_id, %error, "task not handed over");
                    untaken = true;
                }
            }
        }
        beat::once(self.node).await;
        untaken
    }

    fn failed(&mut self, call: &str, error: &CallError) -> Pause {
        self.node.note_poll(false);
        let reason = error.word();
        if matches!(error, CallError::Transport(_)) {
            self.node.probe_wanted.notify_one();
        }
        let next = next(error);
        match next {
            Next::Session => self.opened = None,
            Next::Renew => self.node.renewal_wanted.notify_one(),
            Next::Superseded | Next::Retry | Next::Edge { .. } | Next::Wait { .. } | Next::Slow => {}
        }
        let Some(pause) = self.pauses.after(next, &self.node.pace) else {
            tracing::error!(call, reason, "another session of this node has taken over");
            return Pause::Superseded;
        };
        tracing::warn!(call, reason, pause_ms = pause.as_millis() as u64, "not answered");
        Pause::For(pause)
    }
}

/// A new manifest alone is no reason to open the session again: heartbeats and waits go on.
fn same_build(opened: &SessionRequest, now: &SessionRequest) -> bool {
    opened.boot_id == now.boot_id
        && opened.hardware == now.hardware
        && opened.versions == now.versions
        && opened.simulated == now.simulated
        && opened.task_types == now.task_types
}

/// A first look at an unverified payload: it only decides whether we probe our own hops before the result.
fn asks_for_health(task: &OfferedTask) -> bool {
    #[derive(Deserialize)]
    struct Glance {
        task_type: String,
    }
    let payload = task.envelope.payload_unverified().unwrap_or_default();
    serde_json::from_slice::<Glance>(&payload).is_ok_and(|glance| glance.task_type == TaskType::HealthProbe.as_str())
}
