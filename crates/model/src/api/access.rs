//! People, their tokens, and what they may do.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ProjectId, TokenId, UserId};
use crate::state::ProjectRole;
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
    /// Set: it works in this project only.
    pub project_id: Option<ProjectId>,
    /// And with this role at most.
    pub project_role: Option<ProjectRole>,
}

/// A token that works in one project only.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectTokenCreate {
    /// 1 to 64 characters.
    pub name: String,
    /// Not above your own.
    pub role: ProjectRole,
    /// 1 to 365.
    pub days: u32,
}

/// A person on the platform.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UserView {
    pub id: UserId,
    pub name: String,
    pub platform_roles: Vec<Scope>,
    /// As the identity provider says it; it decides nothing.
    pub email: Option<String>,
    /// The identity provider that knows them, if one does.
    pub issuer: Option<String>,
    pub created_at: Timestamp,
    pub disabled_at: Option<Timestamp>,
    pub version: i64,
}

/// A platform role to grant or to take away.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserRole {
    pub role: Scope,
}

/// What somebody showed to be known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    #[default]
    Token,
    Session,
    Provider,
}

/// `GET /v1/me`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WhoAmI {
    pub user_id: UserId,
    pub user: String,
    /// The token that was shown. A browser's session stands here in the same form, and for a token of the identity
    /// provider, which has no id here, its owner.
    pub token_id: TokenId,
    #[serde(default)]
    pub via: Via,
    pub scopes: Vec<Scope>,
    pub expires_at: Timestamp,
}

/// `GET /v1/auth`: how to become somebody here.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SignInView {
    /// The identity provider. None: there are only tokens.
    pub issuer: Option<String>,
    /// Can browsers sign in, at `/auth/login`?
    pub browser: bool,
    /// As which client the command line signs in. None: it cannot.
    pub client_id: Option<String>,
    /// What access tokens have to be for.
    pub audience: Option<String>,
    pub scopes: Vec<String>,
}
