//! The walks: everything real but the hardware. One file per walk or scenario.

mod tenant;
mod walk;

/// The binary that plays agents and executors.
const EXE: &str = env!("CARGO_BIN_EXE_gpuaas-dev");
