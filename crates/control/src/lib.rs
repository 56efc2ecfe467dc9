//! The control plane as a library: which roles there are, what each listens on and which loops it runs. The binary
//! `gpuaasd` and the development platform both start what is here.

pub mod admin;
pub mod asyncapi;
pub mod offline;
pub mod openapi;
pub mod process;
pub mod role;
pub mod roles;
pub mod routes;

pub use role::Role;

/// Ten thousand connections that come and go at once leave the system's allocator with memory that it does not give
/// back.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
