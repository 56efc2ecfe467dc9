//! Who acts and on what: the words that audit rows and events are made of.

use std::net::IpAddr;

use model::id;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActorKind {
    /// A person, signed in.
    User,
    /// A person's token.
    Token,
    /// A node, by its certificate.
    Node,
    /// A loop of ours.
    System,
    /// Another process of ours, by its role certificate.
    Role,
}

impl ActorKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            ActorKind::User => "user",
            ActorKind::Token => "token",
            ActorKind::Node => "node",
            ActorKind::System => "system",
            ActorKind::Role => "role",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    pub kind: ActorKind,
    pub id: String,
    pub correlation_id: Uuid,
    pub address: Option<IpAddr>,
}

impl Actor {
    pub fn new(kind: ActorKind, id: impl ToString, correlation_id: Uuid) -> Self {
        Self {
            kind,
            id: id.to_string(),
            correlation_id,
            address: None,
        }
    }

    /// A loop of ours, by name (`audit-sealer`), with a correlation id of its own.
    pub fn system(name: &'static str) -> Self {
        Self::new(ActorKind::System, name, super::fresh_correlation())
    }

    pub fn node(node: id::NodeId, correlation_id: Uuid) -> Self {
        Self::new(ActorKind::Node, node, correlation_id)
    }

    /// As signed documents and histories name it.
    pub fn reference(&self) -> String {
        format!("{}:{}", self.kind.as_str(), self.id)
    }

    pub fn at(mut self, address: Option<IpAddr>) -> Self {
        self.address = address;
        self
    }
}

/// What was acted on. The kind is a word of ours; the id may be text from outside when the target never existed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub kind: &'static str,
    pub id: String,
    /// Of the object after the change; none where nobody counts, or nobody knows.
    pub version: Option<i64>,
}

impl Target {
    pub fn new(kind: &'static str, id: impl ToString) -> Self {
        Self {
            kind,
            id: id.to_string(),
            version: None,
        }
    }

    pub fn at_version(mut self, version: i64) -> Self {
        self.version = Some(version);
        self
    }
}

macro_rules! targets {
    ($($id:ident = $kind:literal),* $(,)?) => {$(
        impl From<id::$id> for Target {
            fn from(id: id::$id) -> Self {
                Target::new($kind, id)
            }
        }
    )*};
}

targets! {
    InstallationId = "installation",
    NodeId = "node",
    TaskId = "task",
    OpId = "operation",
    AllocationId = "allocation",
    ProjectId = "project",
    IntentId = "intent",
    UserId = "user",
    TokenId = "token",
    EnrolmentId = "enrolment",
    SessionId = "session",
    SlotId = "slot",
    SkuId = "sku",
    KeyId = "key",
}
