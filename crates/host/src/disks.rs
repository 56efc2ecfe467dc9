//! NVMe disks: which is which, and the guard before anything is written. A disk is known by name, serial number,
//! world-wide name and size together; it is opened only if all four fit and nobody uses it, and from then on it is the
//! open file that counts, not the name. Whether a guest has it or whose lease it is, the caller asks elsewhere.

mod rules;

use std::os::fd::BorrowedFd;

use model::proof::WipeMethod;
use model::value::{DiskIdentity, Pci};
use serde::{Deserialize, Serialize};

use crate::{Markers, Result};
pub(crate) use rules::{guard, missing, not_offered, unproved};

/// One namespace of an NVMe controller, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub identity: DiskIdentity,
    /// The kernel's name, `nvme0n1`: for people, never for opening.
    pub kernel_name: String,
    /// The controller's PCI function.
    pub controller: Option<Pci>,
    /// How many namespaces the controller has, this one included.
    pub namespaces: u32,
    /// Mounts, swap, holders, in words; empty if nobody uses it.
    pub in_use_by: Vec<String>,
}

/// A disk that cannot be told from others, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nameless {
    pub kernel_name: String,
    pub why: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskList {
    /// Sorted by name.
    pub disks: Vec<Disk>,
    pub nameless: Vec<Nameless>,
}

/// What a wipe came to. That it says so proves nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wiped {
    pub method: WipeMethod,
    pub tool_rc: i32,
}

/// What was found on a disk after its wipe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sought {
    pub markers_found: u32,
    pub signatures_found: u32,
    pub read_back_bytes: u64,
    pub blocks_not_zero: u64,
}

pub trait Disks: Send + Sync {
    fn disks(&self) -> Result<DiskList>;

    /// The guard: `disk_missing`, or `disk_guard` with what differs or who uses it. Nothing is written by it; while the
    /// answer is kept, nobody else can mount the disk or take it in the same way.
    fn open_guarded(&self, identity: &DiskIdentity) -> Result<Box<dyn OpenDisk>>;
}

/// A disk that passed the guard.
pub trait OpenDisk: Send + Sync {
    fn identity(&self) -> &DiskIdentity;

    /// To write an image to. None on a pretended machine, which has no such thing.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// What the disk can do, best first. Never empty; those that reach beyond a namespace only where there is one.
    fn wipe_methods(&self) -> Result<Vec<WipeMethod>>;

    /// Writes the markers and reads them back from the disk; gives how many. Fewer than all of them is an error.
    fn plant(&self, markers: &Markers) -> Result<u32>;

    /// `wipe_unproved` if the disk could not be wiped; refuses a method that it does not offer. The answer says which
    /// one it was in the end: a disk that refuses to write zeros itself is overwritten.
    fn wipe(&self, method: WipeMethod) -> Result<Wiped>;

    /// Looks for the markers and for signatures; reads the whole disk if the method leaves zeros.
    fn seek(&self, markers: &Markers, method: WipeMethod) -> Result<Sought>;
}
