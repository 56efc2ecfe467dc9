//! The machine itself. Every path is taken below one root directory, `/` unless a test says otherwise; every program
//! is started by [`command`], and by nothing else.

mod command;
mod devices;
mod dhcp;
mod disks;
mod facts;
mod guests;
mod images;
mod leases;
mod machines;
mod network;
mod operations;
mod readiness;
mod settings;
mod slices;
mod sys;
mod users;
mod whole;

pub use devices::{Devices, InAProcess, KernelWriter};
pub use disks::{Disks, WIPE_LIMIT};
pub use facts::Facts;
pub use guests::{Dial, Guests, NoDial, hand_over};
pub use images::{CONVERT as CONVERT_LIMIT, Images};
pub use leases::Leases;
pub(crate) use leases::leased;
pub use machines::{Cell, Layout, Machines, Settings as MachineSettings, domain};
pub use network::{Network, Settings as NetworkSettings, Surroundings, cookie, flows};
pub use operations::Operations;
pub use readiness::Ready;
pub use settings::Settings;
pub use slices::{GUEST_PROGRAM, MARKER, Slices};
pub use users::Users;
