//! The keys of an installation and the signed documents that tell nodes which of them to believe. Private keys lie
//! in files of the role that uses them; the database holds only what is public and signed.

mod delegate;
mod draft;
mod edition;
mod files;
mod follow;
mod init;
mod keyring;
mod revoke;
mod rotate;
pub mod routes;
mod store;
mod upkeep;
mod view;

pub use delegate::{Wish, countersign, delegate, make_key_file, make_manifest_key, parse_delegation, sign_delegation};
pub use draft::Terms;
pub(crate) use files::{read_document, remember_document, write_new as write_key_file};
pub(crate) use follow::newest;
pub use follow::{PassedOver, follow};
pub use init::{InitReport, init};
pub use keyring::{Keyring, KeyringError};
pub use revoke::revoke;
pub use rotate::rotate;
pub use store::any as initialised;
pub use upkeep::upkeep;
pub(crate) use upkeep::{Told, sweep_files, watch_ends};
pub use view::view;
