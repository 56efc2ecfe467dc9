//! The real side of [`crate::Devices`].

use std::path::{Path, PathBuf};

use model::digest::Sha256;
use model::proof::ResetProof;
use model::value::Pci;

use crate::{Bound, Error, Function, Holder, Result};

pub struct Devices {
    root: PathBuf,
}

impl Devices {
    pub fn under(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn not_there_yet<T>(&self) -> Result<T> {
        Err(Error::Unreadable {
            path: self.root.display().to_string(),
            why: "this build cannot look at its devices yet",
        })
    }
}

impl crate::Devices for Devices {
    fn functions(&self) -> Result<Vec<Function>> {
        self.not_there_yet()
    }
    fn function(&self, _: Pci) -> Result<Function> {
        self.not_there_yet()
    }
    fn group_holders(&self, _: u32) -> Result<Vec<Holder>> {
        self.not_there_yet()
    }
    fn vbios_sha256(&self, _: Pci) -> Result<Option<Sha256>> {
        self.not_there_yet()
    }
    fn check_passthrough(&self, _: u64) -> Result<()> {
        self.not_there_yet()
    }
    fn ensure_vfio_bound(&self, _: Pci) -> Result<Bound> {
        self.not_there_yet()
    }
    fn reset(&self, _: Pci, _: Option<Sha256>) -> Result<ResetProof> {
        self.not_there_yet()
    }
}
