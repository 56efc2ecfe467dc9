//! Slots as operators see them: which devices, whose, and what was proved before anybody else gets them.

use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GuestTelemetry, SlotHeld, Waiting};
use crate::id::{AllocationId, NodeId, OpId, SlotId, TaskId};
use crate::key::KeyId;
use crate::signal::Code;
use crate::state::SlotState;
use crate::task::topology_discover::{Blocker, GpuDevice, Output};
use crate::time::Timestamp;
use crate::value::{DiskId, MacAddress, Pci, Serial};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SlotView {
    pub id: SlotId,
    pub node_id: NodeId,
    pub node_name: String,
    /// The host below is pretended: nothing on it is real.
    pub simulated: bool,
    pub slot_index: u32,
    pub state: SlotState,
    pub state_since: Timestamp,
    pub state_reason: Option<String>,
    pub waiting: Option<Waiting>,
    /// The GPU.
    pub pci_address: Pci,
    pub fabric_device: Option<Pci>,
    pub nvme_device: DiskId,
    pub nvme_serial: Serial,
    pub nvme_wwn: Serial,
    pub nvme_size_bytes: u64,
    pub numa_node: Option<u32>,
    pub vcpu_count: u32,
    pub memory_mib: u64,
    pub mac_address: MacAddress,
    pub private_ip: Ipv4Addr,
    /// The GPU as the latest discovery saw it.
    pub gpu: Option<GpuDevice>,
    /// The GPU as it was approved; what a later discovery is compared with.
    pub approved_gpu: Option<GpuDevice>,
    pub approved_at: Option<Timestamp>,
    pub approved_by: Option<String>,
    /// What the latest discovery found in its way.
    pub blockers: Vec<Blocker>,
    /// Worth knowing; stands in nobody's way.
    pub warnings: Vec<Blocker>,
    /// Why nobody gets it although it was approved.
    pub fault: Option<SlotFault>,
    pub seen_at: Timestamp,
    /// Who has it.
    pub allocation_id: Option<AllocationId>,
    /// The operation that may have left something of a tenant on it.
    pub dirty_op: Option<OpId>,
    pub quarantine: Option<SlotQuarantine>,
    /// What its node's executor says is on it.
    #[serde(default)]
    pub held: Option<SlotHeld>,
    /// What the guest on it says about itself.
    #[serde(default)]
    pub telemetry: Option<GuestTelemetry>,
    /// When a clean wipe was last proved.
    pub wiped_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub version: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlotFault {
    pub code: Code,
    pub detail: String,
    pub since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlotQuarantine {
    pub code: Code,
    pub reason: String,
    pub since: Timestamp,
}

/// `GET /v1/slots/{id}/proofs`: what its node's executor has signed about it. The signed bytes are its task's result.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SlotProofView {
    pub slot_id: SlotId,
    /// `wipe`, `reset`, or `untouched`: the operation never began to write.
    pub kind: String,
    /// The disk's serial number or the function's address.
    pub subject: String,
    pub clean: bool,
    pub task_id: TaskId,
    pub op_id: OpId,
    pub at: Timestamp,
    /// The key of the node's executor that has signed it.
    #[serde(default)]
    pub signed_by: Option<KeyId>,
    /// In the executor's words.
    pub proof: serde_json::Value,
}

/// `GET /v1/nodes/{id}/topology`: the latest discovery, beside what was approved.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TopologyView {
    pub node_id: NodeId,
    pub node_name: String,
    pub simulated: bool,
    pub discovered_at: Timestamp,
    /// Slots in service that the discovery did not find as they were approved.
    pub differences: Vec<SlotDifference>,
    pub topology: Output,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlotDifference {
    pub slot_id: SlotId,
    pub slot_index: u32,
    pub fault: SlotFault,
}
