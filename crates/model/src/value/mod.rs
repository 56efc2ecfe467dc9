//! Values that a host will act on. Each is a type whose only way in is its parser: what would be dangerous as a
//! file name, an argument or a line in a file does not parse.

mod cidr;
mod disk;
mod file_name;
mod mac_address;
mod name;
mod nonce;
mod pci;
mod ssh_key;
mod uid;

pub use cidr::{Ipv4Cidr, Ipv4CidrError};
pub use disk::{DiskIdentity, Serial, SerialError};
pub use file_name::{DiskId, FileName, FileNameError};
pub use mac_address::{MacAddress, MacAddressError};
pub use name::{Name, NameError};
pub use nonce::{Nonce, NonceError};
pub use pci::{Pci, PciError};
pub use ssh_key::{SshKey, SshKeyError};
pub use uid::{Uid, UidError};
