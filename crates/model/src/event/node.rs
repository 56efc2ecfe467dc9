//! What happens to nodes, their certificates and their slots. For whoever runs the platform.

use super::shapes;
use crate::id::{AllocationId, NodeId, SessionId, SlotId};
use crate::node_api::CertificateKind;
use crate::state::{NodeMode, NodeState};
use crate::time::Timestamp;

shapes! {
    NodeCreated {
        name: String,
    }
    NodeEnrolled {
        epoch: u64,
        simulated: bool,
    }
    NodeSession {
        session: SessionId,
        simulated: bool,
    }
    NodeMoved {
        from: NodeState,
        to: NodeState,
        reason: String,
        simulated: bool,
    }
    NodeModeChanged {
        from: NodeMode,
        to: NodeMode,
    }
    NodeDiffers {
        what: String,
    }
    NodeCloned {
        evidence: Evidence,
        /// The address that it was seen from.
        from: Option<String>,
    }
    NodeHeldDiffers {
        /// Newly seen: a code, the allocation and its slot.
        differs: Vec<Held>,
        /// No longer so.
        over: Vec<Held>,
    }
    NodeTopology {
        slots: u32,
        schedulable: u32,
        blockers: u32,
    }
    CertificateIssued {
        serial: String,
        kind: CertificateKind,
        not_after: Timestamp,
    }
    CertificateRevoked {
        serial: String,
    }
    SlotMoved {
        node_id: NodeId,
        from: crate::state::SlotState,
        to: crate::state::SlotState,
        reason: String,
        simulated: bool,
    }
    SlotFault {
        code: String,
        detail: Option<String>,
    }
    SlotDiskGone {
        node_id: NodeId,
        disk: Option<String>,
        reason: String,
    }
}

/// That it happened is all there is to say.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// A code, the allocation, and its slot if it has one.
pub type Held = (String, AllocationId, Option<SlotId>);

/// What showed that there are two.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    OldGeneration {
        kind: CertificateKind,
        claimed: u64,
        used: u64,
    },
    OtherHardware {
        field: String,
    },
    TwoSessions {
        superseded: SessionId,
    },
}
