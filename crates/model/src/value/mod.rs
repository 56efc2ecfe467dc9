//! Values that a host will act on. Each is a type whose only way in is its parser: what would be dangerous as a
//! file name, an argument or a line in a file does not parse.

mod name;
mod ssh_key;
mod uid;

pub use name::{Name, NameError};
pub use ssh_key::{SshKey, SshKeyError};
pub use uid::{Uid, UidError};
