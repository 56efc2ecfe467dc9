//! Certificates: who signs them, who may ask for one, and the rows that remember every one ever issued. A name in a
//! certificate comes from a row of ours or from the device certificate that vouches; never from the request.

mod ca;
mod device_token;
mod renew;
mod role;
pub mod store;

pub use ca::{Ca, CaError, Issued, ServerIdentity};
pub(crate) use renew::{refused, renew};
pub(crate) use role::renew_role;
pub use role::{end_role, issue_role};
