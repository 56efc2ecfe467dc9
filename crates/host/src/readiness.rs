//! What a host needs for slices besides its devices: looked at, never mended. Each answer names what was seen, so that
//! whoever reads it knows what to change.

use std::collections::BTreeMap;

use model::task::topology_discover::CpuVirtualization;
use model::value::{Ipv4Cidr, Name, Pci};
use serde::{Deserialize, Serialize};

use crate::Result;

/// Everything that slices start.
pub const REQUIRED_COMMANDS: [&str; 6] = ["qemu-img", "virsh", "ovs-vsctl", "ovs-ofctl", "ssh", "nvme"];
/// The modules that discovery tells about.
pub const MODULES: [&str; 8] = [
    "kvm",
    "kvm_amd",
    "kvm_intel",
    "openvswitch",
    "vfio",
    "vfio_iommu_type1",
    "vfio_pci",
    "vfio_pci_core",
];

pub(crate) const LVM_WORDS: &str =
    "/etc/lvm/lvm.conf has event_activation on, and neither a devices file nor a filter that rejects nvme";
pub(crate) const LABEL_WORDS: &str = "/etc/fstab names LABEL=cloudimg-rootfs";
pub(crate) const MD_WORDS: &str = "mdadm.conf has no line AUTO … -all";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Readiness {
    pub has_kvm: bool,
    pub iommu_group_count: u32,
    pub iommu_kernel_args: Vec<String>,
    pub cpu_virtualization: CpuVirtualization,
    pub loaded_modules: Vec<String>,
    pub commands: BTreeMap<String, bool>,
    /// The file that says so.
    pub reboot_required: Option<String>,
    /// Why LVM would activate what a tenant puts on a disk.
    pub lvm_autoactivation: Option<String>,
    /// Why arrays that a tenant puts on a disk would be assembled.
    pub md_autoassembly: Option<String>,
    /// Where a file system of the host's own is named by a label, which a tenant can put on a disk as well.
    pub root_by_label: Option<String>,
    /// Does somebody partition the GPUs' own fabric? Says what was seen.
    pub fabric_manager: FabricManager,
    /// Whose limit on locked memory counts, and the limit; None: none.
    pub memlock_of: String,
    pub memlock_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricManager {
    pub is_running: bool,
    /// `FABRIC_MODE` of its configuration: 0 gives every GPU to everybody.
    pub mode: u32,
}

impl FabricManager {
    pub fn partitions(self) -> bool {
        self.is_running && self.mode > 0
    }
}

/// The network that guests would be plugged into.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkState {
    pub bridges: BTreeMap<Name, bool>,
    /// None: nobody could be asked. The rules are shown only to whoever may change them.
    pub has_nat: Option<bool>,
    pub forwards: bool,
    /// Links over InfiniBand that no file of netplan mentions.
    pub unplanned_ipoib: Vec<String>,
    pub has_dhcp: bool,
}

pub trait Ready: Send + Sync {
    fn readiness(&self) -> Result<Readiness>;
    fn network_state(&self, bridges: &[Name], network: Option<Ipv4Cidr>) -> Result<NetworkState>;
    /// The partition of the fabric that each virtual function is confined to, in words; one that is not listed is not
    /// confined.
    fn fabric_partitions(&self) -> Result<BTreeMap<Pci, String>>;
}
