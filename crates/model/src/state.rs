//! States of tasks, nodes, slots and allocations, and the moves that exist between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
        }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = UnknownState;
            fn from_str(text: &str) -> Result<Self, UnknownState> {
                let all = || Self::ALL.iter().map(|s| s.as_str()).collect::<Vec<_>>().join(", ");
                let found = Self::ALL.iter().copied().find(|s| s.as_str() == text);
                found.ok_or_else(|| UnknownState(text.to_owned(), all()))
            }
        }
    };
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of: {1}")]
pub struct UnknownState(pub String, pub String);

states! {
    /// Where a task is. Ends are ends: no move leaves them.
    TaskState {
        Queued = "queued",
        Dispatched = "dispatched",
        Started = "started",
        /// The lease ran out. Never given to another node; the result may still come.
        Unknown = "unknown",
        Succeeded = "succeeded",
        Failed = "failed",
        Expired = "expired",
        Cancelled = "cancelled",
    }
}

impl TaskState {
    pub const fn is_end(self) -> bool {
        match self {
            Self::Queued | Self::Dispatched | Self::Started | Self::Unknown => false,
            Self::Succeeded | Self::Failed | Self::Expired | Self::Cancelled => true,
        }
    }
}

states! {
    /// Where a node is.
    NodeState {
        /// Known, not yet proven: a probe must succeed first.
        Enrolling = "enrolling",
        Ready = "ready",
        Draining = "draining",
        Drained = "drained",
        /// Silent for too long.
        Stale = "stale",
        /// No tasks until an operator says so. What runs on it goes on.
        Quarantined = "quarantined",
        Removed = "removed",
    }
}

states! {
    /// Where a slot is on its way from one tenant to the next.
    SlotState {
        /// Discovered; nobody has approved it.
        Candidate = "candidate",
        Free = "free",
        /// Promised to an allocation; nothing of it is on the host.
        Reserved = "reserved",
        /// A node has been given the task that makes the VM.
        Leased = "leased",
        Releasing = "releasing",
        /// Given to nobody until a wipe is proved.
        Quarantined = "quarantined",
        Rejected = "rejected",
        /// Was approved once and is out of service.
        Retired = "retired",
    }
}

impl SlotState {
    /// Does the platform count on it?
    pub const fn in_service(self) -> bool {
        match self {
            Self::Free | Self::Reserved | Self::Leased | Self::Releasing | Self::Quarantined => true,
            Self::Candidate | Self::Rejected | Self::Retired => false,
        }
    }
}

states! {
    /// How a node is rented out. VFIO and the vendor driver exclude each other, so a node is one or the other.
    NodeMode {
        Slice = "slice",
        Machine = "machine",
    }
}

states! {
    /// Where an allocation is. Ends are ends: no move leaves them.
    AllocationState {
        /// Accepted; its slots are promised.
        Requested = "requested",
        Provisioning = "provisioning",
        /// Taken back after a failure or a cancel.
        Unwinding = "unwinding",
        /// Proved ready, and charged.
        Active = "active",
        /// No longer charged; stopped, wiped, proved.
        Releasing = "releasing",
        Released = "released",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl AllocationState {
    pub const fn is_end(self) -> bool {
        match self {
            Self::Requested | Self::Provisioning | Self::Unwinding | Self::Active | Self::Releasing => false,
            Self::Released | Self::Failed | Self::Cancelled => true,
        }
    }

    /// Where it can go from here. The database holds the same list.
    pub const fn leads_to(self) -> &'static [Self] {
        match self {
            Self::Requested => &[Self::Provisioning, Self::Unwinding],
            Self::Provisioning => &[Self::Active, Self::Unwinding],
            Self::Unwinding => &[Self::Failed, Self::Cancelled],
            Self::Active => &[Self::Releasing],
            Self::Releasing => &[Self::Released],
            Self::Released | Self::Failed | Self::Cancelled => &[],
        }
    }

    /// What somebody can do about an allocation in this state; `retry` on top when it is stuck. There is always a way out.
    pub const fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Requested | Self::Provisioning => &["cancel", "release", "force-release"],
            Self::Unwinding | Self::Releasing => &["release", "force-release"],
            Self::Active => &[
                "release",
                "extend",
                "reboot",
                "stop",
                "start",
                "repair",
                "force-release",
            ],
            Self::Failed | Self::Cancelled => &["again"],
            Self::Released => &[],
        }
    }
}

states! {
    /// What a person may do in a project. Each may do what the ones before it may.
    ProjectRole {
        Viewer = "viewer",
        /// Makes allocations, and ends their own.
        Member = "member",
        /// Ends anybody's; says who is in.
        Admin = "admin",
        Owner = "owner",
    }
}
