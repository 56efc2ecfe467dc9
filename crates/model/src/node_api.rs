//! What nodes and the control plane say to each other under `/internal/v1`. Both ends use these types; outsiders
//! read `openapi.node.json`, which comes from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::dsse::Envelope;
use crate::id::{InstallationId, NodeId, OpId, SessionId, TaskId};
use crate::key::PublicKey;
use crate::signal::Code;
use crate::task::TypeVersions;
use crate::time::Timestamp;
use crate::trust::Bundle;

/// The node protocol of this build. Control planes and agents work one step apart in both directions.
pub const PROTOCOL: u32 = 1;

pub const fn compatible(protocol: u32) -> bool {
    protocol.abs_diff(PROTOCOL) <= 1
}

pub mod header {
    pub const SERVICE: &str = "gpuaas-service";
    pub const TIME: &str = "gpuaas-time";
    pub const MANIFEST: &str = "gpuaas-manifest";
    pub const CATALOGUE: &str = "gpuaas-catalogue";
    pub const SESSION: &str = "gpuaas-session";
}

/// What is bolted into the rack; a node that shows up with other hardware is a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    pub dmi_uuid: Option<String>,
    pub board_serial: Option<String>,
    pub tpm_ek_sha256: Option<Sha256>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    pub hostname: String,
    pub provider: Option<String>,
    pub private_ip: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    pub agent: String,
    pub executor: String,
    pub protocol: u32,
}

/// `POST /internal/v1/enroll` on the enrolment listener.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnrolRequest {
    pub secret: String,
    /// PEM.
    pub device_csr: String,
    /// PEM.
    pub working_csr: String,
    pub result_public: PublicKey,
    pub simulated: bool,
    pub hardware: Hardware,
    pub facts: Facts,
    pub versions: Versions,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnrolAnswer {
    pub installation: InstallationId,
    pub node_id: NodeId,
    pub epoch: u64,
    /// PEM, leaf first.
    pub device_chain: String,
    pub working: CertificateAnswer,
    pub bundle: Bundle,
    pub endpoints: Endpoints,
    /// What a renewal token must name as its audience.
    pub token_audiences: Vec<String>,
}

/// Where a node calls. `*_resolve` is the address to dial when the name should not be looked up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Endpoints {
    pub node_api_url: String,
    pub node_api_resolve: Option<String>,
    pub enrol_url: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CertificateKind {
    /// 24 h, for TLS; the agent holds its key.
    Working,
    /// 365 d, vouches for renewals; the executor holds its key.
    Device,
}

/// `POST /internal/v1/nodes/{id}/certificates` on the enrolment listener: the token is the identity.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateRequest {
    pub kind: CertificateKind,
    /// PEM.
    pub csr: String,
    /// X5C JWT, signed by the device key.
    pub token: String,
    /// The newest generation this node holds.
    pub generation: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateAnswer {
    /// PEM, leaf first.
    pub chain: String,
    /// PEM, every CA that a server of ours may present.
    pub ca_bundle: String,
    pub generation: u64,
    pub not_after: Timestamp,
}

/// `POST /internal/v1/nodes/{id}/session`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    pub session_id: SessionId,
    pub boot_id: String,
    pub hardware: Hardware,
    pub versions: Versions,
    pub simulated: bool,
    pub task_types: Vec<TypeVersions>,
    pub manifest_version: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionAnswer {
    pub session_id: SessionId,
    pub protocol: u32,
    pub heartbeat_s: u32,
    pub self_probe_s: u32,
}

/// `GET /internal/v1/nodes/{id}/tasks/wait`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitAnswer {
    pub tasks: Vec<OfferedTask>,
    /// Running tasks that somebody wants stopped. Unsigned: it can only fail an unfinished task.
    pub cancel: Vec<TaskId>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OfferedTask {
    pub task_id: TaskId,
    pub fence: u64,
    pub lease_s: u32,
    pub envelope: Envelope,
}

/// `POST /internal/v1/nodes/{id}/heartbeat`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    pub tasks: Vec<HeldTask>,
    pub results_pending: u32,
    pub disk: Option<Disk>,
    /// Why this node takes no task at all, if so.
    #[serde(default)]
    pub trouble: Option<Code>,
}

/// A task that the executor has, from acceptance until its result is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeldTask {
    pub task_id: TaskId,
    pub fence: u64,
    /// The step it is in, or `result_pending`.
    pub phase: String,
    pub started_at: Option<Timestamp>,
    /// Of that step, if it is one that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

/// How far a step is, in bytes. Nobody decides on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    pub done_bytes: u64,
    pub of_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub path: String,
    pub used_percent: u32,
    pub free_bytes: u64,
    pub writable: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatAnswer {
    pub cancel: Vec<TaskId>,
}

/// `POST /internal/v1/nodes/{id}/tasks/{task_id}/result`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultRequest {
    pub fence: u64,
    pub envelope: Envelope,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultAnswer {
    /// The very same result had landed before.
    pub duplicate: bool,
}

/// `GET /internal/v1/nodes/{id}/ping`: proves the way in and out, claims nothing.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PingAnswer {
    pub node_id: NodeId,
    pub epoch: u64,
    pub serial: String,
    pub not_after: Timestamp,
}

/// `POST /internal/v1/nodes/{id}/self-probe`: `gpuaas.node_probe.v1`, what the node sees of its own hops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeProbe {
    pub schema: NodeProbeSchema,
    pub at: Timestamp,
    pub agent_version: String,
    pub process_started_at: Timestamp,
    pub executor_connected: bool,
    pub disk: Option<Disk>,
    pub api: ProbedHop,
    /// What the executor holds, in its own signed words; kept beside the probe, not in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Envelope>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NodeProbeSchema {
    #[serde(rename = "gpuaas.node_probe.v1")]
    V1,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbedHop {
    pub url: String,
    pub ok: bool,
    /// From the closed vocabulary of the hop, e.g. `tcp_refused`.
    pub reason: Option<String>,
    pub took_ms: u64,
}

/// `POST /internal/v1/tasks`: a worker asks for a task. Signed only if a stored intent covers it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskRequest {
    pub op_id: OpId,
    pub intent_sha256: Sha256,
    pub node_id: NodeId,
    pub task_type: String,
    pub type_version: u32,
    #[schemars(with = "serde_json::Value")]
    pub params: Box<serde_json::value::RawValue>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskAnswer {
    pub task_id: TaskId,
}

/// `POST /internal/v1/certificate`: a process of ours renews its own. Who it is comes from the one that it shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleCertificateRequest {
    pub csr_pem: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleCertificateAnswer {
    /// PEM, leaf first.
    pub chain: String,
    /// PEM, every CA that a server of ours may present.
    pub authorities: String,
    pub not_after: Timestamp,
}

/// Every error, on every listener, in the one shape.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorAnswer {
    pub error: ErrorBody,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    pub code: Code,
    pub message: String,
    pub hint: Option<String>,
    pub correlation_id: String,
    #[serde(default)]
    pub details: serde_json::Value,
    pub retry_after_s: Option<u32>,
}
