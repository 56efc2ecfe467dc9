//! Typed ids. An id says what it names by its prefix and by its type; a wrong prefix is an error that tells
//! which kind was expected, never a lookup that finds nothing.

use std::fmt;
use std::str::FromStr;

use data_encoding::{Encoding, Specification};
use std::sync::LazyLock;
use uuid::Uuid;

use crate::value::{DiskIdentity, Pci};

/// Crockford's alphabet in lower case: no i, l, o or u, so that an id survives being read aloud.
static CROCKFORD: LazyLock<Encoding> = LazyLock::new(|| {
    let mut spec = Specification::new();
    spec.symbols.push_str("0123456789abcdefghjkmnpqrstvwxyz");
    spec.encoding().expect("a fixed 32-symbol alphabet")
});

/// Why a string is not the id that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("expected an id that starts with `{expected}_`")]
    KindMismatch { expected: &'static str },
    #[error("`{expected}_` must be followed by 26 letters and digits")]
    Malformed { expected: &'static str },
}

fn encode(prefix: &str, uuid: Uuid) -> String {
    // 128 bits are 26 symbols with two bits to spare; the encoder pads them with zero.
    format!("{prefix}_{}", CROCKFORD.encode(uuid.as_bytes()))
}

fn decode(prefix: &'static str, text: &str) -> Result<Uuid, IdError> {
    let (head, tail) = text
        .rsplit_once('_')
        .ok_or(IdError::KindMismatch { expected: prefix })?;
    if head != prefix {
        return Err(IdError::KindMismatch { expected: prefix });
    }
    let malformed = IdError::Malformed { expected: prefix };
    if tail.len() != 26 {
        return Err(malformed);
    }
    let bytes = CROCKFORD.decode(tail.as_bytes()).map_err(|_| malformed.clone())?;
    Uuid::from_slice(&bytes).map_err(|_| malformed)
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $title:literal = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            /// A fresh id; v7, so that newer ids sort later.
            #[expect(clippy::new_without_default, reason = "a default id would be a surprise: every call differs")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            pub const fn uuid(self) -> Uuid {
                self.0
            }

            /// The last six characters, for tables that a person reads.
            pub fn short(self) -> String {
                let full = self.to_string();
                format!("{}_{}", $prefix, &full[full.len() - 6..])
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&encode($prefix, self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                decode($prefix, text).map(Self)
            }
        }

        $crate::text_serde!($name, $title, concat!("^", $prefix, "_[0-9a-hjkmnp-tv-z]{26}$"));
    )*};
}

ids! {
    /// One installation of the platform: the audience of everything it signs.
    InstallationId "InstallationId" = "inst";
    NodeId "NodeId" = "node";
    /// One task, derived from its operation and issue number.
    TaskId "TaskId" = "task";
    /// What a task is for; several tasks of one operation have one effect.
    OpId "OpId" = "op";
    AllocationId "AllocationId" = "alloc";
    ProjectId "ProjectId" = "proj";
    IntentId "IntentId" = "int";
    UserId "UserId" = "user";
    /// An operator's API token (its name, not its secret).
    TokenId "TokenId" = "tok";
    /// A one-time enrolment token (its name, not its secret).
    EnrolmentId "EnrolmentId" = "enr";
    /// One run of one agent, from start to end.
    SessionId "SessionId" = "sess";
    EventId "EventId" = "evt";
    AuditId "AuditId" = "aud";
    PreflightId "PreflightId" = "prf";
    /// What one guest can have of a host: a GPU, a disk, a fabric function.
    SlotId "SlotId" = "slot";
    /// What can be rented, by name and price.
    SkuId "SkuId" = "sku";
    /// A person's SSH key.
    KeyId "KeyId" = "key";
}

/// Derives the operation's id: the same wish asked twice is the same operation.
pub fn derive_op(allocation: AllocationId, kind: &str, generation: u32) -> OpId {
    Uuid::new_v5(&allocation.uuid(), format!("{kind}/{generation}").as_bytes()).into()
}

/// Operations without an allocation (probe, topology) are counted per node and type.
pub fn derive_node_op(node: NodeId, task_type: &str, counter: u64) -> OpId {
    Uuid::new_v5(&node.uuid(), format!("{task_type}/{counter}").as_bytes()).into()
}

/// The same devices of the same node are the same slot, wherever a discovery lists them.
pub fn derive_slot(node: NodeId, gpu: Pci, fabric: Option<Pci>, disk: &DiskIdentity) -> SlotId {
    let fabric = fabric.map_or_else(|| "-".to_owned(), |pci| pci.to_string());
    let devices = format!("slot/{gpu}/{fabric}/{}/{}/{}", disk.serial, disk.wwn, disk.size_bytes);
    Uuid::new_v5(&node.uuid(), devices.as_bytes()).into()
}

/// The n-th task issued for an operation.
pub fn derive_task(op: OpId, issue: u32) -> TaskId {
    Uuid::new_v5(&op.uuid(), issue.to_string().as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_the_round_trip() {
        let id = NodeId::new();
        let text = id.to_string();
        assert!(text.starts_with("node_") && text.len() == 31, "{text}");
        assert_eq!(text.parse::<NodeId>(), Ok(id));
        assert_eq!(serde_json::from_str::<NodeId>(&format!("\"{text}\"")).ok(), Some(id));
    }

    #[test]
    fn the_wrong_kind_is_named() {
        let error = TaskId::new().to_string().parse::<NodeId>().unwrap_err();
        assert_eq!(error, IdError::KindMismatch { expected: "node" });
        for bad in ["", "node", "node_", "node_short", "NODE_00000000000000000000000000"] {
            assert!(bad.parse::<NodeId>().is_err(), "{bad}");
        }
        // A symbol outside the alphabet, and spare bits that are not zero: one text per id, no aliases.
        assert!("node_0000000000000000000000000u".parse::<NodeId>().is_err());
        assert!("node_0000000000000000000000000z".parse::<NodeId>().is_err());
    }

    #[test]
    fn derived_ids_are_stable_and_distinct() {
        let allocation = AllocationId::new();
        let op = derive_op(allocation, "provision_user", 1);
        assert_eq!(op, derive_op(allocation, "provision_user", 1));
        assert_ne!(op, derive_op(allocation, "provision_user", 2));
        assert_ne!(derive_task(op, 0), derive_task(op, 1));
    }
}
