//! The machine itself. Every path is taken below one root directory, `/` unless a test says otherwise; every program
//! is started by [`command`], and by nothing else.

mod command;
mod devices;
mod disks;
mod facts;
mod sys;
mod users;

pub use devices::{Devices, InAProcess, KernelWriter};
pub use disks::Disks;
pub use facts::Facts;
pub use users::Users;
