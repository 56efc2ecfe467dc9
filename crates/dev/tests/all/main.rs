//! The walks: everything real but the hardware. One file per walk or scenario.

mod abuse;
mod allocations;
mod bad_input;
mod cli;
mod clock_jumps;
mod crowd;
mod dev_command;
mod dispatch;
mod full_disk;
mod glass;
mod identity_stale;
mod keys;
mod large;
mod lifecycle;
mod login;
mod once;
mod played;
mod proxy;
mod puppet;
mod renewal;
mod restarts;
mod retention;
mod slots;
mod standing_still;
mod survival;
mod sweep;
mod torture;
mod walk;

pub(crate) use dev::tenant;

/// The binary that plays agents and executors.
const EXE: &str = env!("CARGO_BIN_EXE_gpuaas-dev");
