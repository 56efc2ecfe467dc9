//! The keys of an installation and the signed documents that tell nodes which of them to believe. Private keys lie
//! in files of the role that uses them; the database holds only what is public and signed.

mod init;
mod keyring;
mod store;

pub use init::{InitReport, init};
pub(crate) use keyring::write_new as write_key_file;
pub use keyring::{Keyring, KeyringError};
pub use store::{bundle_latest, bundle_put};
