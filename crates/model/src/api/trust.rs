//! The signing keys and the documents that list them, as operators see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Waiting;
use crate::digest::Sha256;
use crate::dsse::Envelope;
use crate::id::NodeId;
use crate::key::KeyId;
use crate::signal::Code;
use crate::time::Timestamp;
use crate::trust::{KeyStatus, Purpose};

/// `GET /v1/trust`, and the answer of every verb that changes it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrustView {
    pub manifest: ManifestView,
    pub delegation: DelegationView,
    /// Nodes that count: enrolled, heard lately, neither quarantined nor removed.
    pub nodes: u64,
    pub keys: Vec<TrustKeyView>,
    /// Rotations that wait for nodes.
    pub rotations: Vec<RotationView>,
    pub warnings: Vec<TrustWarning>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ManifestView {
    pub version: u64,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DelegationView {
    pub version: u64,
    pub expires_at: Timestamp,
    pub threshold: usize,
    /// The hashes that nodes pin.
    pub roots: Vec<Sha256>,
    pub manifest_key: KeyId,
    /// As it was signed: what the next one is made from, offline.
    pub document: Envelope,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrustKeyView {
    pub keyid: KeyId,
    pub purpose: Purpose,
    pub status: KeyStatus,
    /// When it got this status.
    pub since: Timestamp,
    pub not_after: Timestamp,
    /// The first manifest that lists it.
    pub added_in: u64,
    /// Nodes that count and have that manifest or a later one.
    pub known_by: u64,
    /// Out of how many.
    pub nodes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RotationView {
    pub purpose: Purpose,
    pub asked_at: Timestamp,
    pub asked_by: String,
    pub waiting: Waiting,
    /// Who is waited for, the longest silent first; at most a hundred.
    pub nodes: Vec<BehindView>,
}

/// A node that does not know the next key yet.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BehindView {
    pub node_id: NodeId,
    pub name: String,
    pub state: String,
    pub manifest_version: Option<u64>,
    pub last_seen_at: Option<Timestamp>,
    pub reason: String,
}

/// Something that a person should do something about.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrustWarning {
    pub code: Code,
    pub message: String,
    /// A command that helps, ready to be pasted.
    pub verb: String,
}

/// `POST /v1/trust/rotate`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustRotate {
    /// All of them, if none is named.
    #[serde(default)]
    pub purposes: Vec<Purpose>,
    /// Do not wait for nodes that are behind.
    #[serde(default)]
    pub now: bool,
    pub reason: Option<String>,
}

/// `POST /v1/trust/keys/{keyid}/revoke`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustRevoke {
    pub reason: String,
}

/// `POST /v1/trust/delegation`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustDelegate {
    /// Signed offline by `gpuaasd trust delegate`.
    pub delegation: Envelope,
}
