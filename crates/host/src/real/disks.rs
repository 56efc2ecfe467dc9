//! The real side of [`crate::Disks`].

use std::path::{Path, PathBuf};

use model::value::DiskIdentity;

use crate::{DiskList, Error, OpenDisk, Result};

pub struct Disks {
    root: PathBuf,
}

impl Disks {
    pub fn under(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn not_there_yet<T>(&self) -> Result<T> {
        Err(Error::Unreadable {
            path: self.root.display().to_string(),
            why: "this build cannot look at its disks yet",
        })
    }
}

impl crate::Disks for Disks {
    fn disks(&self) -> Result<DiskList> {
        self.not_there_yet()
    }
    fn open_guarded(&self, _: &DiskIdentity) -> Result<Box<dyn OpenDisk>> {
        self.not_there_yet()
    }
}
