//! The audit log as people read it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::AuditId;
use crate::time::Timestamp;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AuditRow {
    pub id: AuditId,
    /// Position in the sealed chain; null until the sealer has been by (a second at most).
    pub pos: Option<i64>,
    pub at: Timestamp,
    pub actor_kind: String,
    pub actor_id: String,
    pub action: String,
    pub target_kind: String,
    pub target_id: String,
    /// `ok`, `refused` or `failed`.
    pub outcome: String,
    pub code: Option<String>,
    pub correlation_id: String,
    pub details: serde_json::Value,
}

/// A row as the owners of the project read it that it is about.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ProjectAuditRow {
    pub id: AuditId,
    pub at: Timestamp,
    pub actor_kind: String,
    /// The person, or their token; null where the platform itself has acted.
    pub actor_id: Option<String>,
    pub action: String,
    /// `project`, `allocation` or `token`.
    pub target_kind: String,
    pub target_id: String,
    /// `ok`, `refused` or `failed`.
    pub outcome: String,
    pub code: Option<String>,
    pub correlation_id: String,
    pub details: serde_json::Value,
}

/// `GET /v1/audit/verify`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AuditVerdict {
    /// Rows whose place in the chain was checked.
    pub sealed: i64,
    /// Rows too young to be sealed.
    pub unsealed: i64,
    pub oldest_unsealed_ms: Option<i64>,
    /// The chain's end, in hex: compare it with one that was exported earlier.
    pub head: Option<String>,
    pub broken: Option<AuditBreak>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditBreak {
    pub pos: i64,
    pub audit_id: Option<AuditId>,
    pub why: String,
}
