//! Projects, who is in them, what they may have at once, and the keys that people log in with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{KeyId, ProjectId, UserId};
use crate::state::ProjectRole;
use crate::time::Timestamp;
use crate::value::SshKey;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectCreate {
    /// 1 to 63 of `a-z`, `0-9` and `-`.
    pub name: String,
    /// Its first owner, by id or by name; whoever asks, unless told.
    #[serde(default)]
    pub owner: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ProjectView {
    pub id: ProjectId,
    pub name: String,
    /// The caller's own role in it; null for operators who are not in it.
    pub role: Option<ProjectRole>,
    pub created_at: Timestamp,
    /// Set: it has ended. Nobody is in it; whoever may look into all projects still finds it by its id.
    #[serde(default)]
    pub deleted_at: Option<Timestamp>,
    pub version: i64,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberAdd {
    /// An id, or the name of somebody who exists. Somebody who is in it already gets the new role.
    pub user: String,
    pub role: ProjectRole,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemberView {
    pub user_id: UserId,
    pub user: String,
    pub role: ProjectRole,
    pub since: Timestamp,
    /// Counts the roles that they have had in it.
    pub version: i64,
}

/// What a project may have at once, and what it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaView {
    pub project_id: ProjectId,
    pub slots: u32,
    pub slots_used: u32,
    pub slots_per_sku: Option<u32>,
    pub allocations: u32,
    pub allocations_used: u32,
    pub terminals: u32,
    pub max_ttl_hours: Option<u32>,
    /// What everything that is rented at once may cost in a day, in millionths, for each currency.
    pub spend_per_day_micro: Option<i64>,
    pub version: i64,
}

/// A limit by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuotaLimit {
    Slots,
    SlotsPerSku,
    Allocations,
    Terminals,
    MaxTtlHours,
    SpendPerDayMicro,
}

impl QuotaLimit {
    pub const fn as_str(self) -> &'static str {
        match self {
            QuotaLimit::Slots => "slots",
            QuotaLimit::SlotsPerSku => "slots_per_sku",
            QuotaLimit::Allocations => "allocations",
            QuotaLimit::Terminals => "terminals",
            QuotaLimit::MaxTtlHours => "max_ttl_hours",
            QuotaLimit::SpendPerDayMicro => "spend_per_day_micro",
        }
    }
}

/// What is left out stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaChange {
    #[serde(default)]
    pub slots: Option<u32>,
    #[serde(default)]
    pub slots_per_sku: Option<u32>,
    #[serde(default)]
    pub allocations: Option<u32>,
    #[serde(default)]
    pub terminals: Option<u32>,
    #[serde(default)]
    pub max_ttl_hours: Option<u32>,
    /// What everything that is rented at once may cost in a day, in millionths, for each currency.
    #[serde(default)]
    pub spend_per_day_micro: Option<u64>,
    /// Taken away again: back to what a new project has, which for `slots_per_sku`, `max_ttl_hours` and
    /// `spend_per_day_micro` is no limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reset: Vec<QuotaLimit>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyCreate {
    /// 1 to 64 characters, once per person.
    pub name: String,
    pub public_key: SshKey,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct KeyView {
    pub id: KeyId,
    pub name: String,
    pub public_key: SshKey,
    pub created_at: Timestamp,
    /// A key never changes, so this is always 1.
    pub version: i64,
}
