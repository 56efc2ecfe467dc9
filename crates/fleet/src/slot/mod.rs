//! Slots: what one guest can have of a host. A discovery proposes them, an operator approves them, an allocation leases
//! them, and only a proof gives them to the next. The database holds what must never be otherwise; here are the moves.

mod admit;
mod approve;
pub(crate) mod discovery;
mod fit;
mod landing;
pub mod lease;
mod rewipe;
pub mod routes;
mod state;
pub mod store;
mod view;
mod way_out;

pub(crate) use admit::admit;
pub(crate) use fit::{Fit, differences, fit};
pub(crate) use landing::{landed, lost};
pub use routes::rewipe_by;
pub use store::SlotRow;
