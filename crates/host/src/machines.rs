//! Virtual machines. One is ours only if the allocation stands in it; no other is ever started, stopped or removed.

use std::path::PathBuf;
use std::time::Duration;

use model::id::{AllocationId, OpId};
use model::task::vm_power::Power;
use model::value::{DiskId, MacAddress, Name, Pci};
use serde::{Deserialize, Serialize};

use crate::Result;

/// All there is to a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    pub name: Name,
    pub allocation: AllocationId,
    pub op: OpId,
    /// One for each slot, in the order of their index: the first one's disk boots.
    pub parts: Vec<Part>,
    /// The first-boot configuration, as a disk.
    pub seed: PathBuf,
    /// The interface that is there for it already.
    pub interface: String,
    pub mac: MacAddress,
}

/// What one slot brings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub numa_node: u32,
    pub vcpus: u32,
    pub memory_mib: u64,
    pub disk: DiskId,
    pub devices: Vec<Pci>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// None: not one of ours.
    pub allocation: Option<AllocationId>,
    pub power: Power,
}

pub trait Machines: Send + Sync {
    /// `command_missing` unless every program that slices need is installed; and what runs VMs answers.
    fn check_tools(&self) -> Result<()>;

    fn observe(&self, name: &Name) -> Result<Option<Seen>>;

    /// All of ours, by name.
    fn ours(&self) -> Result<Vec<(Name, Seen)>>;

    /// Defined as described, and running. `vm_refused` if the name is somebody else's.
    fn ensure_running(&self, machine: &Machine) -> Result<()>;

    /// Starts one that is defined. Asking for one that runs is nothing to do.
    fn ensure_started(&self, name: &Name, allocation: AllocationId) -> Result<()>;

    /// Asks it to end, and waits that long. True if it is off, or not there.
    fn ask_to_stop(&self, name: &Name, allocation: AllocationId, wait: Duration) -> Result<bool>;

    /// Switches it off.
    fn ensure_off(&self, name: &Name, allocation: AllocationId) -> Result<()>;

    /// Switches it off and removes its definition and its firmware's memory. Leaves somebody else's alone.
    fn ensure_no_machine(&self, name: &Name, allocation: AllocationId) -> Result<()>;

    /// The VM that has this device in its definition, running or not.
    fn holder_of_device(&self, device: Pci) -> Result<Option<String>>;

    /// The VM that has this disk in its definition, by whichever name.
    fn holder_of_disk(&self, disk: &DiskId) -> Result<Option<String>>;
}
