//! Nodes as operators see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NodeHeld, Waiting};
use crate::id::NodeId;
use crate::node_api::{Disk, Facts, Hardware, NodeProbe, Versions};
use crate::signal::Code;
use crate::state::{NodeMode, NodeState};
use crate::task::{TypeVersions, health_probe};
use crate::time::Timestamp;

/// `POST /v1/nodes`: a row for a host and the token that lets it in, once.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeCreate {
    /// 1 to 63 of a-z, 0-9, - and .; unique among nodes that were not removed.
    pub name: String,
    #[serde(default)]
    pub mode: Option<NodeMode>,
    /// Bind the token to a board serial.
    #[serde(default)]
    pub board_serial: Option<String>,
}

/// `POST /v1/nodes/{id}/enroll`: a new token for a known host; its epoch will rise.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeEnrol {
    #[serde(default)]
    pub board_serial: Option<String>,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct Enrolment {
    pub node: NodeView,
    /// Shown once.
    pub token: String,
    /// What to run on the host, as root.
    pub command: String,
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeModeChange {
    pub mode: NodeMode,
}

/// A verb that wants to know why.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeReason {
    /// 1 to 200 characters; kept in the audit log.
    pub reason: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NodeView {
    pub id: NodeId,
    pub name: String,
    pub state: NodeState,
    pub state_since: Timestamp,
    /// Why it is in this state, in words.
    pub state_reason: Option<String>,
    pub waiting: Option<Waiting>,
    pub mode: NodeMode,
    /// The host below is pretended: nothing on it is real.
    pub simulated: bool,
    pub epoch: u64,
    pub facts: Facts,
    pub hardware: Hardware,
    pub versions: Option<Versions>,
    pub task_types: Vec<TypeVersions>,
    pub manifest_version: Option<u64>,
    pub last_seen_at: Option<Timestamp>,
    pub last_probe: Option<health_probe::Output>,
    pub last_probe_at: Option<Timestamp>,
    pub self_probe: Option<NodeProbe>,
    /// What its heartbeats say of the executor.
    pub condition: Option<NodeCondition>,
    /// What its executor says it holds.
    #[serde(default)]
    pub held: Option<NodeHeld>,
    pub certificate: Option<CertificateView>,
    pub created_at: Timestamp,
    pub version: i64,
}

/// The half of a node that runs tasks, as of its last heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeCondition {
    pub told_at: Timestamp,
    /// Results that the control plane has not acknowledged.
    pub results_pending: u32,
    /// The file system of the journal.
    pub disk: Option<Disk>,
    /// Why it takes no task at all, if so.
    pub trouble: Option<Code>,
    pub trouble_since: Option<Timestamp>,
    /// What to do about that.
    pub recovery: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CertificateView {
    pub serial: String,
    /// `working` or `device`.
    pub kind: String,
    pub generation: u64,
    pub epoch: u64,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub first_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}
