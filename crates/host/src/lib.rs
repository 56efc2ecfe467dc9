//! Everything that touches a Linux machine, behind a few small traits. Verbs are `ensure_x` and `ensure_no_x`: asking
//! twice is asking once, and each finishes or removes what a killed predecessor left half done. There are two
//! implementations: [`real`], and [`pretend`], in memory or in a state directory, with a fuse at every call. Which one
//! is used is decided by code, never by configuration. It refuses to touch what is not ours.

pub mod devices;
mod disks;
mod error;
mod facts;
mod guests;
mod images;
mod kept;
mod leases;
mod machines;
mod markers;
mod network;
mod operations;
pub mod pretend;
mod readiness;
pub mod real;
mod slices;
mod users;

use std::path::Path;
use std::sync::Arc;

pub use devices::{Bound, Devices, Function, Holder};
pub use disks::{Disk, DiskList, Disks, Nameless, OpenDisk, Sought, Wiped};
pub use error::Error;
pub use facts::Facts;
pub use guests::{Guest, Guests};
pub use images::{Image, Images, Source};
pub use kept::Kept;
pub use leases::{Leases, Owner};
pub use machines::{Machine, Machines, Part, Seen};
pub use markers::{BLOCK_BYTES, Markers};
pub use network::{Network, Plug, Port};
pub use operations::{Entered, Operations, Place};
pub use readiness::{FabricManager, MODULES, NetworkState, REQUIRED_COMMANDS, Readiness, Ready};
pub use slices::{Baseline, Slice, Slices, Wish};
pub use users::{Resident, Tenant, Users};

pub type Result<T> = std::result::Result<T, Error>;

/// One machine, as whoever acts on it holds it.
#[derive(Clone)]
pub struct Host {
    pub users: Arc<dyn Users>,
    pub facts: Arc<dyn Facts>,
    pub devices: Arc<dyn Devices>,
    pub disks: Arc<dyn Disks>,
    pub leases: Arc<dyn Leases>,
    pub images: Arc<dyn Images>,
    pub slices: Arc<dyn Slices>,
    pub network: Arc<dyn Network>,
    pub machines: Arc<dyn Machines>,
    pub guests: Arc<dyn Guests>,
    pub ready: Arc<dyn Ready>,
    pub operations: Arc<dyn Operations>,
    /// The parts that are not real, by name. A run with any of them says so everywhere.
    pub pretended: Vec<&'static str>,
}

impl Host {
    /// The machine this process runs on.
    pub fn real() -> Self {
        Self::real_under(Path::new("/"))
    }

    /// The machine whose root directory is `root`: programs run in a chroot there, and all files are looked for below
    /// it. Processes, IPC and mounts are those of the running kernel all the same.
    pub fn real_under(root: &Path) -> Self {
        Self::real_with(root, real::Settings::default())
    }

    pub fn real_with(root: &Path, settings: real::Settings) -> Self {
        Self {
            users: Arc::new(real::Users::under(root)),
            facts: Arc::new(real::Facts::under(root)),
            devices: Arc::new(real::Devices::under(root)),
            disks: Arc::new(real::Disks::under(root)),
            leases: Arc::new(real::Leases::under(root)),
            images: Arc::new(real::Images::under(root, settings.image_dirs)),
            slices: Arc::new(real::Slices::under(root)),
            network: Arc::new(real::Network::new(settings.network)),
            machines: Arc::new(real::Machines::new(settings.machines)),
            guests: Arc::new(real::Guests::new(
                real::Slices::under(root),
                settings.dial,
                settings.helper,
            )),
            ready: Arc::new(real::Ready::under(root)),
            operations: Arc::new(real::Operations::of_this_process()),
            pretended: Vec::new(),
        }
    }

    pub fn is_simulated(&self) -> bool {
        !self.pretended.is_empty()
    }
}
