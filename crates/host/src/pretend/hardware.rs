//! The devices of a pretend machine: data that a profile fills in and that anybody may meddle with, beside the faults
//! that a script wants it to have.

use std::collections::{BTreeMap, BTreeSet};

use model::digest::Sha256;
use model::value::{DiskId, Pci};
use serde::{Deserialize, Serialize};

use crate::{Disk, Function, Holder, Nameless};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    pub functions: BTreeMap<Pci, Function>,
    /// Digests of ROMs.
    pub vbios: BTreeMap<Pci, Sha256>,
    /// Functions that have a tenant's data in their memory.
    #[serde(default)]
    pub residue: BTreeSet<Pci>,
    /// By IOMMU group.
    pub holders: BTreeMap<u32, Vec<Holder>>,
    pub disks: BTreeMap<DiskId, PretendDisk>,
    pub nameless: Vec<Nameless>,
    /// None: no limit.
    pub memlock_bytes: Option<u64>,
    /// Does the processor lack virtualisation?
    pub no_kvm: bool,
    /// Is vfio-pci not loaded?
    pub no_vfio: bool,
    /// What its owner has not prepared, in the words of [`crate::Ready`]'s pretend side.
    #[serde(default)]
    pub lacks: BTreeSet<String>,
    /// What goes wrong, until it is taken out again.
    pub faults: BTreeSet<Fault>,
}

/// A disk whose contents are words: an image, a tenant's secret, a marker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PretendDisk {
    pub disk: Disk,
    /// Can its controller sanitize and format?
    pub is_capable: bool,
    pub written: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The kernel answers with an error.
    ResetFails(Pci),
    /// The kernel answers well, and the function is gone from the bus.
    ResetLosesIt(Pci),
    /// Its ROM is another one afterwards.
    RomChanges(Pci),
    /// It comes back on another driver.
    DriverChanges(Pci),
    /// A write to one of its files does not return.
    WriteHangs(Pci),
    /// It sleeps too deeply once it is bound.
    NeverWakes(Pci),
    /// Its group has another number once it is bound.
    GroupMoves(Pci),
    /// The wipe says that it worked.
    WipeDoesNothing(DiskId),
    /// An I/O error in the middle.
    WipeStops(DiskId),
    /// What is written is not what is read.
    Forgets(DiskId),
    /// An image is written halfway.
    ImageStops(DiskId),
}

impl PretendDisk {
    pub(super) fn marker(nonce: impl std::fmt::Display) -> String {
        format!("marker/{nonce}")
    }
}
