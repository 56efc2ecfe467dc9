//! What a tenant rents, from the wish to the proven end.

use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PhaseView, SkuKind};
use crate::id::{AllocationId, OpId, ProjectId, SkuId, SlotId, TaskId, UserId};
use crate::signal::Code;
use crate::state::{AllocationState, TaskState};
use crate::task::vm_power::{Action, Power};
use crate::time::Timestamp;
use crate::value::{FileName, SshKey};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationCreate {
    /// Not needed by whoever is in one project only.
    #[serde(default)]
    pub project: Option<ProjectId>,
    /// By name.
    pub sku: String,
    /// 1 to 64 characters, for people.
    #[serde(default)]
    pub name: Option<String>,
    /// One of the SKU's; its first one, unless told.
    #[serde(default)]
    pub image: Option<FileName>,
    /// All stored keys of the caller, unless told.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub ssh_public_keys: Vec<SshKey>,
    /// Released by itself after this long; 60 at least.
    #[serde(default)]
    pub ttl_s: Option<u64>,
}

/// `POST …/release` and `…/force-release`. Operators have to say why.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationRelease {
    #[serde(default)]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationExtend {
    /// From now on; null for no end. One of both has to be said: nobody takes an end away by forgetting it.
    #[serde(default, deserialize_with = "said")]
    #[schemars(with = "Option<u64>", !default)]
    pub ttl_s: Option<Option<u64>>,
}

/// Null was said, and what is not there was not.
fn said<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(d).map(Some)
}

/// What lies on top of a state and wants somebody's eye.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConditionCode {
    /// The node has no room yet, or is not ready.
    WaitingForNode,
    /// Past its deadline, or it could not be taken back.
    Stuck,
    /// The node is silent.
    Unreachable,
    /// Its time is nearly over.
    Expiring,
    /// The balance is nearly over.
    AutoReleasePending,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionView {
    pub code: ConditionCode,
    pub since: Timestamp,
    pub detail: Option<String>,
    pub owner: String,
    /// A command that helps, ready to be pasted.
    pub verb: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AllocationView {
    pub id: AllocationId,
    pub project_id: ProjectId,
    pub name: Option<String>,
    pub kind: SkuKind,
    pub sku: String,
    pub sku_id: SkuId,
    pub sku_version: i64,
    pub rate_micro_per_hour: u64,
    pub currency: String,
    pub creator_id: UserId,
    pub creator: String,
    pub state: AllocationState,
    pub state_since: Timestamp,
    pub state_reason: String,
    pub deadline_at: Option<Timestamp>,
    pub ends_at: Option<Timestamp>,
    pub conditions: Vec<ConditionView>,
    /// What can be done about it now, by whoever may.
    pub verbs: Vec<String>,
    pub forced: bool,
    pub code: Option<Code>,
    pub detail: Option<String>,
    /// As its node last signed it; only while it is active.
    pub power: Option<Power>,
    /// What was asked of it while it was there, until that is written down as done.
    #[serde(default)]
    pub asked: Option<AskedView>,
    pub private_ip: Option<Ipv4Addr>,
    pub default_username: Option<String>,
    pub slot_ids: Vec<SlotId>,
    pub node_name: String,
    /// The node below is pretended.
    pub simulated: bool,
    /// The work under way, or the last one.
    pub operation_id: Option<OpId>,
    /// Of the work under way, or of the last one.
    pub phases: Vec<PhaseView>,
    /// Of one that was given back, and only where one is shown: its slots that are proved clean.
    #[serde(default)]
    pub wiped: Vec<WipedView>,
    pub correlation_id: String,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub version: i64,
    /// Grows with every change and every phase; `GET …?changed_since=N&wait_s=S` answers when it has passed N.
    pub revision: i64,
}

/// A switch of its VM, or the repair of its account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskedView {
    pub task_id: TaskId,
    pub state: TaskState,
    pub since: Timestamp,
    /// Why it has failed.
    pub code: Option<Code>,
    pub detail: Option<String>,
}

/// The wipe after which somebody else may have the slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WipedView {
    pub slot_id: SlotId,
    /// Its result is signed by the node and has the proof.
    pub task_id: TaskId,
    /// As in the proof: `sanitize_crypto`, `overwrite`, …
    pub method: String,
    pub at: Timestamp,
}

/// `GET …/phases`: all of them, of making it and of taking it away.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AllocationPhases {
    pub allocation_id: AllocationId,
    pub provision: Vec<PhaseView>,
    pub release: Vec<PhaseView>,
}

/// `GET …/transitions`: every move, oldest first, and between them the switches of its VM, with the state it was in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TransitionView {
    pub from: Option<AllocationState>,
    pub to: AllocationState,
    pub at: Timestamp,
    pub reason: String,
    pub actor: String,
    pub code: Option<Code>,
    pub correlation_id: String,
    /// No move, but this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<SwitchView>,
}

/// Its VM was to be switched, or has been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchView {
    pub action: Action,
    pub step: SwitchStep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SwitchStep {
    Asked,
    /// As its node has signed it.
    Done,
    Failed,
}
