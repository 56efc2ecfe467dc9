//! Allocations: what a tenant rents, from the wish to the proven end. Each verb is idempotent and decides under the row's
//! lock. Everybody locks in the same order: quota, allocation, node, slots and tasks, workflow.

pub mod create;
pub(crate) mod later;
pub mod moves;
mod power;
mod refused;
mod repair;
pub mod routes;
pub mod store;
mod switches;
pub mod usage;
pub mod verbs;
mod view;

pub use store::AllocationRow;
