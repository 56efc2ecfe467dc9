//! The task as it is signed, and the order in which a node checks it. Agent and executor run the same checks;
//! only the executor's verdict counts. Everything fails closed, and every refusal has a code.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::digest::Sha256;
use crate::dsse::{self, Envelope};
use crate::id::{InstallationId, NodeId, OpId, TaskId};
use crate::key::SigningKey;
use crate::signal::Code;
use crate::task::Task;
use crate::time::Timestamp;
use crate::trust::Trust;

pub const TASK_TYPE: &str = "application/vnd.gpuaas.node-task.v1+json";

/// Between issue and start; a task that waits longer is issued anew.
pub const MAX_START_S: i64 = 900;
/// How far a node's clock may be off.
pub const CLOCK_TOLERANCE_S: i64 = 120;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskPayload {
    pub v: u32,
    pub aud: InstallationId,
    pub task_id: TaskId,
    pub op_id: OpId,
    /// The intent that covers it; null for what needs none.
    pub intent_sha256: Option<Sha256>,
    pub node_id: NodeId,
    pub node_epoch: u64,
    /// Counts per (node, epoch); a lower one for the same subject is superseded.
    pub seq: u64,
    pub task_type: String,
    pub type_version: u32,
    pub issued_at: Timestamp,
    pub start_by: Timestamp,
    pub max_runtime_s: u32,
    pub actor_ref: String,
    pub correlation_id: Uuid,
    pub params: Box<RawValue>,
}

impl TaskPayload {
    pub fn sign(&self, key: &SigningKey) -> Envelope {
        dsse::sign_json(TASK_TYPE, self, &[key])
    }
}

/// Why a task was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct Refusal {
    pub code: Code,
    pub detail: String,
}

impl Refusal {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
        }
    }
}

impl From<Code> for Refusal {
    fn from(code: Code) -> Self {
        Self::new(code, code.meaning())
    }
}

/// Who this node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub node_id: NodeId,
    pub epoch: u64,
}

/// A payload whose signature, audience and addressee are right. Time and parameters are judged by `admit`, after
/// the journal was asked whether the task is already known.
#[derive(Clone, Debug)]
pub struct Authentic {
    pub payload: TaskPayload,
    pub sha256: Sha256,
}

/// What the node knows about time.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub clock: Timestamp,
    /// The newest `issued_at` ever accepted: time does not pass backwards through it.
    pub floor: Timestamp,
    /// What the control plane's clock said with the offer.
    pub server: Option<Timestamp>,
}

impl Times {
    /// The clock, but never behind the floor.
    pub fn now(&self) -> Timestamp {
        self.clock.max(self.floor)
    }

    fn skewed(&self) -> bool {
        let tolerance = CLOCK_TOLERANCE_S * 1000;
        self.server
            .is_some_and(|server| self.clock.since_ms(server).abs() > tolerance)
            || self.floor.since_ms(self.clock) > tolerance
    }
}

/// Size, nesting, shape, key, signature, type, payload, audience, node, epoch: in this order.
pub fn authenticate(bytes: &[u8], trust: &Trust, me: Identity, now: Timestamp) -> Result<Authentic, Refusal> {
    let envelope = Envelope::parse(bytes)?;
    let mut purposes = Vec::new();
    if let [signature] = envelope.signatures.as_slice() {
        purposes.clone_from(&trust.key(&signature.keyid, now)?.purposes);
    }
    let payload = envelope.open(TASK_TYPE, |keyid| trust.key(keyid, now).map(|key| key.public))?;
    let sha256 = Sha256::of(&payload);
    let payload: TaskPayload = dsse::parse_payload(&payload).map_err(|(code, why)| Refusal::new(code, why))?;
    if payload.v != 1 {
        return Err(Refusal::new(Code::PayloadMalformed, "v must be 1"));
    }
    if let Ok(known) = payload.task_type.parse::<crate::task::TaskType>()
        && !purposes.contains(&known.spec().purpose)
    {
        return Err(Refusal::new(
            Code::KeyNotUsable,
            format!("this key may not sign {known}"),
        ));
    }
    if payload.aud != trust.aud() {
        return Err(Code::WrongAudience.into());
    }
    if payload.node_id != me.node_id {
        return Err(Code::WrongNode.into());
    }
    if payload.node_epoch != me.epoch {
        return Err(Code::WrongEpoch.into());
    }
    Ok(Authentic { payload, sha256 })
}

/// May it start now, and what is it? Times, compiled type, parameters, expired manifest: in this order.
pub fn admit(authentic: &Authentic, trust: &Trust, times: Times) -> Result<Task, Refusal> {
    let payload = &authentic.payload;
    startable(payload, times)?;
    let task = Task::parse(&payload.task_type, payload.type_version, &payload.params)
        .map_err(|(code, why)| Refusal::new(code, why))?;
    let spec = task.task_type().spec();
    if payload.max_runtime_s > spec.max_runtime_s {
        return Err(Refusal::new(
            Code::ParamsInvalid,
            format!("max_runtime_s: at most {}", spec.max_runtime_s),
        ));
    }
    if spec.changes_host {
        if trust.expired(times.now()) {
            return Err(Code::ManifestExpired.into());
        }
        if times.skewed() {
            return Err(Code::ClockSkew.into());
        }
    }
    Ok(task)
}

/// The window in which a task may start; asked again right before it does. Whoever's clock is wrong hears that, and not
/// that the task came too early or too late.
pub fn startable(payload: &TaskPayload, times: Times) -> Result<(), Refusal> {
    let now = times.now();
    let outside = |code: Code| if times.skewed() { Code::ClockSkew } else { code };
    if payload.start_by.since_ms(payload.issued_at) > MAX_START_S * 1000 {
        return Err(Code::LifetimeTooLong.into());
    }
    if now < payload.issued_at.plus_s(-CLOCK_TOLERANCE_S) {
        return Err(outside(Code::NotYetValid).into());
    }
    if now > payload.start_by {
        return Err(outside(Code::StartByPassed).into());
    }
    Ok(())
}
