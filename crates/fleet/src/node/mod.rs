//! Nodes: the rules of their states, and the rows.

pub mod routes;
pub mod state;
pub mod store;
mod view;

pub use store::NodeRow;
pub use view::view;
