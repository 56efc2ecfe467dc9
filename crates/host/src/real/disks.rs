//! The real side of [`crate::Disks`]: identity from sysfs by device number, never by name; the guard; and a disk that
//! passed it, as an open file.

mod controller;
pub(in crate::real) mod direct;
mod guard;
mod identity;
mod open;
mod signatures;
mod users;

use std::path::{Path, PathBuf};

use model::value::DiskIdentity;

use super::sys::Sys;
use crate::{Disk, DiskList, Nameless, OpenDisk, Result};

pub use controller::WIPE_LIMIT;

pub struct Disks {
    root: PathBuf,
    sys: Sys,
}

impl Disks {
    pub fn under(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            sys: Sys::under(root),
        }
    }
}

impl crate::Disks for Disks {
    fn disks(&self) -> Result<DiskList> {
        let mut list = DiskList::default();
        let names = self.stable_names()?;
        for kernel_name in self.sys.names("sys/block")? {
            // Paths of a disk that is reached in several ways have a `c`; the disk itself is listed beside them.
            let is_disk = kernel_name.strip_prefix("nvme").is_some_and(|rest| !rest.contains('c'));
            if !is_disk {
                continue;
            }
            let dir = format!("sys/block/{kernel_name}");
            match self.identity(&dir, names.get(&kernel_name).map(Vec::as_slice).unwrap_or_default())? {
                Ok(identity) => list.disks.push(Disk {
                    identity,
                    controller: self.controller(&dir)?,
                    namespaces: self.namespaces(&dir)?,
                    in_use_by: self.users(&dir)?,
                    kernel_name,
                }),
                Err(why) => list.nameless.push(Nameless { kernel_name, why }),
            }
        }
        list.disks.sort_by(|a, b| a.identity.by_id.cmp(&b.identity.by_id));
        Ok(list)
    }

    fn open_guarded(&self, identity: &DiskIdentity) -> Result<Box<dyn OpenDisk>> {
        Ok(Box::new(self.guarded(identity)?))
    }
}
