//! The digest of a function's ROM. The kernel lets nobody read it before it is asked to; while a guest has the device
//! it is not asked. A function that sleeps shows all ones instead of its ROM, and vfio-pci puts to sleep whatever no
//! guest has: so it is kept awake meanwhile, and one that does not wake is an error, for nobody knows what it has. None
//! has one whose ROM the kernel finds no header in: it answers with an I/O error, at whichever read.

use model::digest::Sha256;
use model::value::Pci;
use rustix::io::Errno;

use super::{Devices, PCI};
use crate::devices;
use crate::{Error, Result};

/// Larger ROMs are none.
const MOST_BYTES: u64 = 16 << 20;
/// The kernel looks for exactly these two bytes; anything else, the digit alone too, turns it on.
const OFF: &str = "0\n";
const ON: &str = "1\n";

enum Read {
    Seen(Option<Sha256>),
    /// Nobody has asked for it to be readable.
    Off,
}

impl Devices {
    pub(super) fn rom(&self, pci: Pci) -> Result<Option<Sha256>> {
        self.awake(pci, || {
            let power = self.sys.optional(&format!("{PCI}/{pci}/power_state"))?;
            if let Some(state) = power.filter(|state| devices::sleeps(state)) {
                return Err(devices::asleep(pci, &state));
            }
            self.rom_of_one_awake(&format!("{PCI}/{pci}/rom"))
        })
    }

    fn rom_of_one_awake(&self, path: &str) -> Result<Option<Sha256>> {
        if let Read::Seen(rom) = self.read_rom(path)? {
            return Ok(rom);
        }
        self.write(path, ON)?;
        let read = self.read_rom(path);
        self.write(path, OFF)?;
        match read? {
            Read::Seen(rom) => Ok(rom),
            Read::Off => Err(self.sys.unreadable(path, "the kernel does not turn it on")),
        }
    }

    fn read_rom(&self, path: &str) -> Result<Read> {
        match self.sys.bytes(path, MOST_BYTES) {
            Ok(bytes) => Ok(Read::Seen(digest(bytes))),
            Err(Error::Io { source, .. }) if is(&source, Errno::INVAL) => Ok(Read::Off),
            // A board without a ROM has the file all the same.
            Err(Error::Io { source, .. }) if is(&source, Errno::IO) => Ok(Read::Seen(None)),
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
