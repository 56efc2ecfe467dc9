//! One short file per role: what the process listens on and which loops it runs.

mod address;
pub mod api;
mod certificate;
pub mod outbox_relay;
mod ports;
pub mod provisioning_worker;
mod public;

pub use ports::Ports;
