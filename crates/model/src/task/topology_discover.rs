//! `slice.topology_discover`: look at the host's devices and say which slots it could have, and everything that stands
//! in the way. It never writes a slot and changes nothing: an operator approves what it found.

mod changes;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ParamsError, Spec};
use crate::digest::Sha256;
use crate::id::AllocationId;
use crate::signal::Code;
use crate::trust::Purpose;
use crate::value::{DiskId, MacAddress, Name, Pci, Serial};
pub use changes::changes;

pub const SPEC: Spec = Spec {
    name: "slice.topology_discover",
    version: 1,
    summary: "look at the host's devices and propose slots; changes nothing",
    purpose: Purpose::Slice,
    max_runtime_s: 120,
    running_per_node: 1,
    changes_host: false,
    destroys_data: false,
};

/// What a slot gets unless its product says otherwise.
pub const VCPU_COUNT: u32 = 12;
pub const MEMORY_MIB: u64 = 65_536;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Output {
    pub prerequisites: Prerequisites,
    pub gpu_devices: Vec<GpuDevice>,
    pub fabric_devices: Vec<FabricDevice>,
    pub nvme_devices: Vec<NvmeDevice>,
    pub candidate_slots: Vec<CandidateSlot>,
    pub candidate_summary: CandidateSummary,
    /// Always: a discovery proposes.
    pub approval_required: bool,
}

/// What the host needs besides devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prerequisites {
    /// The device is there and the processor can.
    pub kvm_available: bool,
    pub iommu_group_count: u32,
    /// Those of the kernel's command line that concern the IOMMU.
    pub iommu_kernel_args: Vec<String>,
    pub cpu_virtualization: CpuVirtualization,
    /// Of those that passthrough needs.
    pub loaded_modules: Vec<String>,
    /// Each program that we start, and whether it is there.
    pub required_commands: BTreeMap<String, bool>,
    pub slice_network: SliceNetwork,
    pub reboot_required: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuVirtualization {
    pub vmx: bool,
    pub svm: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SliceNetwork {
    /// Each bridge that local policy allows, and whether it is there.
    pub bridges: BTreeMap<Name, bool>,
    /// Guests are masqueraded on their way out.
    pub nat: bool,
    pub ip_forwarding: bool,
    /// True also where there is no IPoIB link to configure.
    pub ipoib_netplan: bool,
    pub dhcp: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuDevice {
    pub pci_address: Pci,
    /// As SKUs name it. Executors before it was told do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub iommu_group: Option<u32>,
    /// All functions of its IOMMU group, its own included.
    pub group_members: Vec<Pci>,
    pub numa_node: Option<u32>,
    pub root_complex: String,
    pub driver: Option<String>,
    /// As the kernel lists them, first choice first.
    pub reset_method: Vec<String>,
    pub vbios_sha256: Option<Sha256>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FabricDevice {
    pub pci_address: Pci,
    pub is_vf: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NvmeDevice {
    pub by_id: DiskId,
    pub serial: Serial,
    pub wwn: Serial,
    pub size_bytes: u64,
    /// Mounts, swap, holders: empty if a slot may have it.
    pub in_use_by: Vec<String>,
}

/// What one guest could have, in the words of `slice.vm_provision`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CandidateSlot {
    pub slot_index: u32,
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
    /// Nothing among the blockers concerns it.
    pub schedulable: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CandidateSummary {
    pub slots: u32,
    pub schedulable: u32,
    /// Why slots are not schedulable, or not there.
    pub blockers: Vec<Blocker>,
    /// What an operator should know before approving; blocks nothing.
    pub warnings: Vec<Blocker>,
}

/// One obstacle: what it is, whose, how it was seen, and what to type against it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Blocker {
    pub code: Code,
    /// A PCI address, a disk, a bridge; `host` where it concerns every slot.
    pub subject: String,
    pub detail: String,
    pub fix: String,
}

pub fn check(_: &Params) -> Result<(), ParamsError> {
    Ok(())
}

pub fn subjects(_: &Params) -> Vec<String> {
    Vec::new()
}

pub fn allocation(_: &Params) -> Option<AllocationId> {
    None
}
