//! The digest of a function's ROM. The kernel lets nobody read it before it is asked to; while a guest has the device
//! it is not asked.

use model::digest::Sha256;
use model::value::Pci;
use rustix::io::Errno;

use super::{Devices, PCI};
use crate::{Error, Result};

/// Larger ROMs are none.
const MOST_BYTES: u64 = 16 << 20;

impl Devices {
    pub(super) fn rom(&self, pci: Pci) -> Result<Option<Sha256>> {
        let path = format!("{PCI}/{pci}/rom");
        match self.sys.bytes(&path, MOST_BYTES) {
            Ok(bytes) => Ok(digest(bytes)),
            Err(Error::Io { source, .. }) if is(&source, Errno::INVAL) => {
                self.write(&path, "1")?;
                let read = self.sys.bytes(&path, MOST_BYTES);
                self.write(&path, "0")?;
                match read {
                    Ok(bytes) => Ok(digest(bytes)),
                    // A board without a ROM has the file all the same.
                    Err(Error::Io { source, .. }) if is(&source, Errno::IO) => Ok(None),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }
}

fn digest(bytes: Option<Vec<u8>>) -> Option<Sha256> {
    bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| Sha256::of(&bytes))
}

fn is(error: &std::io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}
