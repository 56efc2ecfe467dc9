//! One node of a crowd: the agent's calls, its rule for what follows which answer and its pauses, without the
//! processes. A task that it is given it names, starts and answers at once, signed with its own result key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agent::Pace;
use agent::api::{Api, CallError, Known, Overrides};
use agent::identity::Identity;
use agent::pace::{Next, Pauses, next};
use model::digest::Sha256;
use model::id::{OpId, SessionId};
use model::key::SigningKey;
use model::node_api::{
    Hardware, HeartbeatRequest, HeldTask, NodeProbe, NodeProbeSchema, OfferedTask, PROTOCOL, ProbedHop, ResultRequest,
    SessionRequest, Versions,
};
use model::outcome::{Outcome, RESULT_TYPE, ResultPayload};
use model::signal::Code;
use model::task::TaskType;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::tally::{Tally, add};

/// What a member is made of; one line of the file that a crowd reads.
#[derive(Clone, Serialize, Deserialize)]
pub struct Member {
    pub identity: Identity,
    pub result_key: String,
}

/// A member at work.
pub(super) struct Player {
    api: Api,
    pace: Pace,
    clock: agent::Clock,
    result_key: SigningKey,
    journal_seq: AtomicU64,
    tally: Arc<Tally>,
}

const PROBED: &str = r#"{"kernel_version":"6.1","free_memory_mib":1,"kvm_present":false,"vfio_modules":[],"gpus":[],
"fabric_links":[],"root_free_bytes":1,"state_writable":true,"journal_used_pct":0,"clock_skew_ms":0}"#;

impl Player {
    pub(super) fn new(member: Member, overrides: Overrides, pace: Pace, tally: Arc<Tally>) -> anyhow::Result<Self> {
        let clock = agent::Clock::real();
        let api = Api::new(member.identity, overrides, SessionId::new(), clock.clone())?;
        let result_key = SigningKey::from_text(&member.result_key).map_err(|_| anyhow::anyhow!("no result key"))?;
        Ok(Self {
            api,
            pace,
            clock,
            result_key,
            journal_seq: AtomicU64::new(1),
            tally,
        })
    }

    /// Polls until another session takes over.
    pub(super) async fn poll(&self) {
        let mut pauses = Pauses::new(&self.pace);
        let mut manifest = 0;
        let mut open = false;
        loop {
            let outcome = self.round(&mut open, &mut manifest).await;
            let error = match outcome {
                Ok(()) => {
                    pauses.answered();
                    pauses.settled();
                    continue;
                }
                Err(error) => error,
            };
            self.tally.failed(&error);
            let next = next(&error);
            if next == Next::Session {
                open = false;
            }
            let Some(pause) = pauses.after(next, &self.pace) else {
                add(&self.tally.superseded);
                return;
            };
            sleep(pause).await;
        }
    }

    async fn round(&self, open: &mut bool, manifest: &mut u64) -> Result<(), CallError> {
        if !*open {
            self.api.session(&self.session_request(*manifest)).await?;
            add(&self.tally.sessions);
            *open = true;
        }
        add(&self.tally.waiting);
        // Its executor is a double that goes by no catalogue.
        let known = Known {
            manifest: Some(*manifest),
            catalogue: None,
        };
        let answered = self.api.wait(self.pace.wait, known).await;
        self.tally.waiting.fetch_sub(1, Ordering::Relaxed);
        let (answer, meta) = answered?;
        add(&self.tally.answered);
        if let Some(offered) = meta.manifest_version.filter(|offered| offered > manifest) {
            *manifest = offered;
            self.tally.news(offered, self.clock.now());
            // As an agent would before it takes a task that may be signed by the new keys.
            self.api.trust().await?;
        }
        for task in answer.map(|answer| answer.tasks).unwrap_or_default() {
            self.play(&task).await;
        }
        Ok(())
    }

    fn session_request(&self, manifest_version: u64) -> SessionRequest {
        SessionRequest {
            session_id: self.api.session_id(),
            boot_id: "crowd".to_owned(),
            hardware: Hardware::default(),
            versions: Versions {
                agent: agent::VERSION.to_owned(),
                executor: agent::VERSION.to_owned(),
                protocol: PROTOCOL,
            },
            simulated: true,
            task_types: model::task::announced(),
            manifest_version,
        }
    }

    /// Named first, then done: nothing to do takes no time. A result is posted until it is answered for good; a real
    /// node's executor would keep it for as long.
    async fn play(&self, task: &OfferedTask) {
        let now = self.api.server_time();
        let held = HeldTask {
            task_id: task.task_id,
            fence: task.fence,
            phase: "played".to_owned(),
            started_at: Some(now),
            progress: None,
        };
        if let Err(error) = self.beat(vec![held]).await {
            self.tally.failed(&error);
        }
        let request = ResultRequest {
            fence: task.fence,
            envelope: model::dsse::sign_json(RESULT_TYPE, &self.result(task, now), &[&self.result_key]),
        };
        let mut pauses = Pauses::new(&self.pace);
        while let Err(error) = self.api.result(task.task_id, &request).await {
            self.tally.failed(&error);
            if matches!(
                error,
                CallError::Refused {
                    status: 404 | 409 | 410,
                    ..
                }
            ) {
                return;
            }
            sleep(pauses.again()).await;
        }
        add(&self.tally.results);
    }

    fn result(&self, task: &OfferedTask, now: Timestamp) -> ResultPayload {
        #[derive(Deserialize)]
        struct Glance {
            task_type: String,
            op_id: OpId,
        }
        let payload = task.envelope.payload_unverified().unwrap_or_default();
        let glance = serde_json::from_slice::<Glance>(&payload).ok();
        let is_probe = glance
            .as_ref()
            .is_some_and(|glance| glance.task_type == TaskType::HealthProbe.as_str());
        let identity = self.api.identity();
        let (outcome, code, output) = match is_probe {
            true => (Outcome::Succeeded, None, RawValue::from_string(PROBED.to_owned()).ok()),
            // Nothing but looking is played here.
            false => (Outcome::Refused, Some(Code::UnsupportedType), None),
        };
        ResultPayload {
            aud: identity.installation,
            task_id: task.task_id,
            op_id: glance.map(|glance| glance.op_id),
            node_id: identity.node_id,
            node_epoch: identity.epoch,
            payload_sha256: Sha256::of(&payload),
            outcome,
            code,
            detail: None,
            started_at: is_probe.then_some(now),
            ended_at: now,
            journal_seq: self.journal_seq.fetch_add(1, Ordering::Relaxed),
            timings: BTreeMap::new(),
            undone: Vec::new(),
            proofs: None,
            output,
        }
    }

    async fn beat(&self, tasks: Vec<HeldTask>) -> Result<(), CallError> {
        let request = HeartbeatRequest {
            tasks,
            results_pending: 0,
            disk: None,
            trouble: None,
        };
        self.api.heartbeat(&request).await?;
        add(&self.tally.heartbeats);
        Ok(())
    }

    /// Beats for ever, as if it held something.
    pub(super) async fn beat_every(&self, every: Duration) {
        sleep(every.mul_f64(rand::random())).await;
        loop {
            if let Err(error) = self.beat(Vec::new()).await {
                self.tally.failed(&error);
            }
            sleep(every).await;
        }
    }

    /// Looks at its own way to the server and posts what it saw, for ever.
    pub(super) async fn probe_every(&self, every: Duration) {
        sleep(every.mul_f64(rand::random())).await;
        loop {
            match self.probe().await {
                Ok(()) => add(&self.tally.self_probes),
                Err(error) => self.tally.failed(&error),
            }
            sleep(every).await;
        }
    }

    async fn probe(&self) -> Result<(), CallError> {
        let at = self.clock.now();
        self.api.ping().await?;
        let took_ms = u64::try_from(self.clock.now().since_ms(at)).unwrap_or(0);
        let probe = NodeProbe {
            schema: NodeProbeSchema::V1,
            at,
            agent_version: agent::VERSION.to_owned(),
            process_started_at: at,
            executor_connected: true,
            disk: None,
            api: ProbedHop {
                url: self.api.url(),
                ok: true,
                reason: None,
                took_ms,
            },
            held: None,
        };
        self.api.self_probe(&probe).await
    }
}
