//! The guard. The name leads to a device number, the number to what the kernel says of that disk; only if all of it
//! fits and nobody uses it is it opened, exclusively, and then everything is asked once more: what is open now is what
//! will be written to, whatever the name comes to mean.

use std::fs::File;
use std::os::fd::AsRawFd;

use model::signal::Code;
use model::value::DiskIdentity;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;

use super::super::command::Commands;
use super::Disks;
use super::controller::Controller;
use super::open::Opened;
use crate::disks::{guard, missing};
use crate::error::Doing;
use crate::{Error, Result};

impl Disks {
    pub(super) fn guarded(&self, wanted: &DiskIdentity) -> Result<Opened> {
        let path = self.sys.path(&format!("dev/disk/by-id/{}", wanted.by_id));
        let opening = || format!("open {}", path.display());
        let place = match open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(place) => place,
            Err(Errno::NOENT | Errno::NXIO | Errno::NODEV) => return Err(missing(wanted)),
            Err(error) => return Err(error).doing(opening),
        };
        let stat = fstat(&place).doing(opening)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
            return Err(refused(wanted, "it is no block device"));
        }
        let dir = self.dir_of(stat.st_rdev)?.ok_or_else(|| missing(wanted))?;
        self.judge(wanted, &dir)?;
        // Through the open place, not through the name.
        let same = format!("/proc/self/fd/{}", place.as_raw_fd());
        let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        let file = match open(&same, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::BUSY) => return Err(refused(wanted, "somebody has it exclusively")),
            Err(error) => return Err(error).doing(opening),
        };
        let now = fstat(&file).doing(opening)?;
        if now.st_rdev != stat.st_rdev {
            return Err(refused(wanted, "its name changed its meaning"));
        }
        self.judge(wanted, &dir)?;
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        let direct =
            File::from(open(format!("/proc/self/fd/{}", file.as_raw_fd()), flags, Mode::empty()).doing(opening)?);
        let has_write_zeroes = self.sys.attribute(&format!("{dir}/queue/write_zeroes_max_bytes"));
        Ok(Opened {
            identity: wanted.clone(),
            file,
            direct,
            controller: Controller::alone(&self.sys, Commands::under(self.root.clone()), &dir)?,
            has_write_zeroes: has_write_zeroes.is_some_and(|most| most != "0"),
        })
    }

    /// Who it is and who uses it, as the kernel says now.
    fn judge(&self, wanted: &DiskIdentity, dir: &str) -> Result<()> {
        match self.identity(dir, std::slice::from_ref(&wanted.by_id))? {
            Ok(seen) => guard(wanted, &seen, &self.users(dir)?),
            Err(why) => Err(refused(wanted, &why)),
        }
    }

    /// Of the whole disk with this number. A partition has a directory too, but it is not what anybody may ask for.
    fn dir_of(&self, rdev: u64) -> Result<Option<String>> {
        let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
        let name = self.sys.link_name(&format!("sys/dev/block/{major}:{minor}"))?;
        let dir = name.map(|name| format!("sys/block/{name}"));
        Ok(dir.filter(|dir| self.sys.has(dir)))
    }
}

fn refused(wanted: &DiskIdentity, why: &str) -> Error {
    Error::Device {
        code: Code::DiskGuard,
        subject: wanted.by_id.to_string(),
        why: why.to_owned(),
    }
}
