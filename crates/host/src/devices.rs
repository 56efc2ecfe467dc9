//! PCI functions, their IOMMU groups and VFIO: what is there, giving a function to VFIO, and resetting it with proof.
//! Nothing here takes a function away from a driver that somebody else needs, nor from vfio-pci: a running guest would
//! lose it without a word. Group numbers are read anew at each call and kept by nobody.

mod rules;

use std::collections::BTreeMap;

use model::digest::Sha256;
use model::proof::ResetProof;
use model::value::Pci;
use serde::{Deserialize, Serialize};

use crate::Result;
pub(crate) use rules::{
    Means, asleep, busy, check_passthrough, missing, plan, prove_reset, reset_failed, sleeps, verify_bound,
    write_timeout,
};

pub const NVIDIA: u16 = 0x10de;
pub const MELLANOX: u16 = 0x15b3;
pub const VFIO_PCI: &str = "vfio-pci";

/// One PCI function as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    pub pci: Pci,
    pub vendor: u16,
    pub device: u16,
    /// Class, subclass and interface, 24 bits.
    pub class: u32,
    pub driver: Option<String>,
    pub iommu_group: Option<u32>,
    pub numa_node: Option<u32>,
    /// The host bridge above it, `pci0000:17`: functions below the same one reach each other without the processor.
    pub root_complex: String,
    /// Of which it is a virtual function.
    pub physical_function: Option<Pci>,
    /// Virtual functions that are turned on.
    pub virtual_functions: u32,
    /// It offers mediated devices: it would be shared, not given away.
    pub is_mdev_parent: bool,
    /// As the kernel lists them, first choice first; empty if it knows no way.
    pub reset_methods: Vec<String>,
    /// `D0`, `D3hot`, `D3cold`, `unknown`
    pub power_state: String,
    pub d3cold_allowed: Option<bool>,
    /// Not all ones.
    pub config_readable: bool,
    /// What of the boot console draws on it.
    pub framebuffer: Option<String>,
}

impl Function {
    pub fn is_bridge(&self) -> bool {
        self.class >> 16 == 0x06
    }

    /// A display or 3D controller of NVIDIA's that is no virtual function.
    pub fn is_gpu(&self) -> bool {
        self.vendor == NVIDIA && self.physical_function.is_none() && matches!(self.class >> 8, 0x0300 | 0x0302)
    }

    /// NVSwitch presents itself as a bridge of another kind.
    pub fn is_nvswitch(&self) -> bool {
        self.vendor == NVIDIA && self.class >> 8 == 0x0680
    }

    /// A network controller of the fabric's vendor, Ethernet or InfiniBand.
    pub fn is_fabric(&self) -> bool {
        self.vendor == MELLANOX && self.class >> 16 == 0x02
    }

    /// May a guest have the group that it belongs to as far as this function goes? Bridges that only pass on may
    /// stay with the kernel's own driver.
    pub fn is_viable(&self) -> bool {
        match self.driver.as_deref() {
            None | Some(VFIO_PCI) => true,
            Some(driver) => self.is_bridge() && driver == "pcieport",
        }
    }
}

/// A process that has a VFIO group open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holder {
    pub pid: u32,
    /// The program's name, and the domain if it is a guest.
    pub program: String,
    pub domain: Option<String>,
}

/// A group of which every function can go to a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    pub group: u32,
    /// The functions on vfio-pci, sorted: the guest gets these.
    pub functions: Vec<Pci>,
}

pub trait Devices: Send + Sync {
    /// Every function of the host, sorted by address.
    fn functions(&self) -> Result<Vec<Function>>;
    /// `device_missing` if it is not there.
    fn function(&self, pci: Pci) -> Result<Function>;
    /// Who has the group open; empty if nobody.
    fn group_holders(&self, group: u32) -> Result<Vec<Holder>>;
    /// The same for all groups that somebody has open, in one look at all processes.
    fn holders(&self) -> Result<BTreeMap<u32, Vec<Holder>>>;
    /// The digest of its ROM; None if it has none that can be read. `gpu_unreachable_d3cold` if it does not wake: what
    /// it has is not known then.
    fn vbios_sha256(&self, pci: Pci) -> Result<Option<Sha256>>;

    /// Could a guest with so much memory be given a device at all? Asks for KVM, the IOMMU, vfio-pci and the limit on
    /// locked memory, and fails with the code of what is missing.
    fn check_passthrough(&self, memory_mib: u64) -> Result<()>;

    /// The function and the others of the same device are on vfio-pci, never sleep too deeply, and answer; every other
    /// function of its group is harmless. What is bound already is not touched. Fails with the code of product's table
    /// of passthrough checks, naming the function and its driver.
    fn ensure_vfio_bound(&self, pci: Pci) -> Result<Bound>;

    /// Resets it and looks: an answer means a whole proof. `baseline` is the digest from before the tenant came. Who
    /// is in use is refused (`vfio_group_busy`); whatever else goes wrong is `gpu_reset_failed` or, if the driver is
    /// another one afterwards, `gpu_not_returned`.
    fn reset(&self, pci: Pci, baseline: Option<Sha256>) -> Result<ResetProof>;
}
