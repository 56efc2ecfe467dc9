//! Operators' tokens and what they may do.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{TokenId, UserId};
use crate::time::Timestamp;

/// What a token may do. There is no scope that opens a tenant's terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Tokens and users.
    Admin,
    /// Nodes and tasks.
    Operator,
    /// Reads nodes and tasks.
    Support,
    /// Reads everything an operator sees, and the audit log.
    Auditor,
    /// Prices, and what was used.
    Finance,
    /// Acts in its owner's projects, as far as their role in each allows. Everybody has it.
    Project,
}

impl Scope {
    pub const ALL: [Scope; 6] = [
        Self::Admin,
        Self::Operator,
        Self::Support,
        Self::Auditor,
        Self::Finance,
        Self::Project,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Support => "support",
            Self::Auditor => "auditor",
            Self::Finance => "finance",
            Self::Project => "project",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such scope; there are admin, operator, support, auditor, finance and project")]
pub struct ScopeError;

impl FromStr for Scope {
    type Err = ScopeError;
    fn from_str(text: &str) -> Result<Self, ScopeError> {
        Self::ALL.into_iter().find(|s| s.as_str() == text).ok_or(ScopeError)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCreate {
    /// 1 to 64 characters.
    pub name: String,
    pub scopes: Vec<Scope>,
    /// 1 to 365.
    pub days: u32,
}

/// The only time that the secret is shown.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct TokenCreated {
    #[serde(flatten)]
    pub token: TokenView,
    pub secret: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TokenView {
    pub id: TokenId,
    pub user_id: UserId,
    pub name: String,
    pub scopes: Vec<Scope>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

/// `GET /v1/me`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WhoAmI {
    pub user_id: UserId,
    pub user: String,
    pub token_id: TokenId,
    pub scopes: Vec<Scope>,
    pub expires_at: Timestamp,
}
