//! The vocabulary of gpuaas: ids, every task a node can be asked for, the signed documents that carry it, states,
//! and the stable codes that name what went wrong. Pure: no I/O, no clock, no async, so that the root process on
//! a node can share it without linking a line of network code.

#[macro_use]
pub mod text;

pub mod api;
pub mod catalogue;
pub mod digest;
pub mod dsse;
pub mod enrol;
pub mod envelope;
pub mod event;
pub mod gpu;
pub mod held;
pub mod id;
pub mod intent;
pub mod json;
pub mod key;
pub mod node_api;
pub mod outcome;
pub mod preflight;
pub mod proof;
pub mod signal;
pub mod socket;
pub mod state;
pub mod task;
pub mod telemetry;
pub mod time;
pub mod trust;
pub mod value;
