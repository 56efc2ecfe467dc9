//! What the host keeps of a slice besides its disk: a directory of root's alone with the VM's own keys and its
//! first-boot configuration, and the registration of its telemetry. Another allocation's is never touched.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use model::digest::Sha256;
use model::id::AllocationId;
use model::task::vm_power::Power;
use model::task::vm_provision::DriverStrategy;
use model::telemetry::Registered;
use model::value::{MacAddress, Name, Pci, SshKey};

use crate::{Kept, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub vm: Name,
    pub allocation: AllocationId,
}

/// Digests of the devices' ROMs from before the tenant came.
pub type Baseline = BTreeMap<Pci, Option<Sha256>>;

/// What the first boot is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    pub user: Name,
    pub keys: Vec<SshKey>,
    pub drivers: DriverStrategy,
}

pub trait Slices: Send + Sync {
    /// `vm_refused` if the name is another allocation's.
    fn ensure_dir(&self, slice: &Slice) -> Result<()>;
    /// With everything in it.
    fn ensure_no_dir(&self, slice: &Slice) -> Result<()>;

    fn ensure_baseline(&self, slice: &Slice, baseline: &Baseline) -> Result<()>;
    /// Empty if there is none any more.
    fn baseline(&self, slice: &Slice) -> Result<Baseline>;

    /// The VM's own key for us to come in by, and the host key that it will show.
    fn ensure_keys(&self, slice: &Slice) -> Result<()>;

    /// Who may send numbers to the agent: by a token that only the guest is told, from this address.
    fn ensure_telemetry(&self, slice: &Slice, mac: MacAddress, ip: Ipv4Addr) -> Result<()>;
    fn ensure_no_telemetry(&self, slice: &Slice) -> Result<()>;
    /// All who may.
    fn registered(&self) -> Result<Vec<Registered>>;

    /// Written as JSON, read back and compared.
    fn ensure_seed_files(&self, slice: &Slice, wish: &Wish) -> Result<()>;
    /// The files as a disk; gives where.
    fn ensure_seed_image(&self, slice: &Slice) -> Result<PathBuf>;
    /// Where that disk is or would be.
    fn seed_image(&self, slice: &Slice) -> PathBuf;

    /// Before it is first started. The same operation's again changes nothing but how it is switched.
    fn ensure_kept(&self, slice: &Slice, kept: &Kept) -> Result<()>;
    /// How it shall be after the host has started again; nothing to note of one that is not written down.
    fn ensure_wanted(&self, slice: &Slice, power: Power) -> Result<()>;
    /// It was started in this life of the host.
    fn ensure_started_in(&self, slice: &Slice, boot_id: &str) -> Result<()>;
    /// Nothing brings it back from now on.
    fn ensure_not_kept(&self, slice: &Slice) -> Result<()>;
    /// All that are written down. One that cannot be read is an error: it is somebody's.
    fn kept(&self) -> Result<Vec<Kept>>;

    fn has_dir(&self, slice: &Slice) -> Result<bool>;
    fn has_telemetry(&self, slice: &Slice) -> Result<bool>;
}
