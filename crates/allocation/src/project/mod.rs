//! Projects: who is in them, and what they may have at once.

pub mod quota;
pub mod routes;
pub mod store;
