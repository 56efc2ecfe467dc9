//! What nodes hold as operators see it: in the executor's signed words, beside what the control plane believes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::held::{HeldPower, Holdings};
use crate::id::{AllocationId, OpId, SlotId};
use crate::signal::Code;
use crate::telemetry::GuestNumbers;
use crate::time::Timestamp;
use crate::value::Name;

/// The newest list that a node's executor has signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeHeld {
    /// When the executor looked, by its clock.
    pub at: Timestamp,
    pub received_at: Timestamp,
    pub number: u64,
    pub boot_id: String,
    pub holds: Holdings,
    /// Where it is not as the control plane believes.
    pub differences: Vec<HeldDifference>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldDifference {
    pub code: Code,
    pub allocation_id: AllocationId,
    pub slot_id: Option<SlotId>,
    pub detail: String,
    pub since: Timestamp,
    /// What to type.
    pub verb: String,
}

/// What the guest says about itself. Whoever is root in it can say anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestTelemetry {
    pub at: Timestamp,
    pub numbers: GuestNumbers,
}

/// What is on one slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlotHeld {
    pub at: Timestamp,
    pub allocation_id: AllocationId,
    pub op_id: Option<OpId>,
    pub vm_name: Option<Name>,
    pub power: HeldPower,
    pub since: Option<Timestamp>,
}
