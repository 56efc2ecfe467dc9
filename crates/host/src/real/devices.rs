//! The real side of [`crate::Devices`]: sysfs, and one process for each write to it. What it sees is what the kernel
//! says at that moment; what it decides stands in the rules that the pretend machine has too.

mod bind;
mod console;
mod holders;
mod look;
mod memlock;
mod rom;
mod turns;
mod write;

use std::collections::BTreeMap;
use std::path::Path;

use model::digest::Sha256;
use model::proof::ResetProof;
use model::value::Pci;

use super::sys::Sys;
use crate::devices::{self, Means};
use crate::{Bound, Facts as _, Function, Holder, Result};
use turns::Turns;
pub use write::{InAProcess, KernelWriter};

const PCI: &str = "sys/bus/pci/devices";

pub struct Devices {
    sys: Sys,
    facts: super::Facts,
    writer: Box<dyn KernelWriter>,
    turns: Turns,
}

impl Devices {
    pub fn under(root: &Path) -> Self {
        Self::with_writer(root, Box::new(InAProcess))
    }

    pub fn with_writer(root: &Path, writer: Box<dyn KernelWriter>) -> Self {
        Self {
            sys: Sys::under(root),
            facts: super::Facts::under(root),
            writer,
            turns: Turns::default(),
        }
    }
}

impl crate::Devices for Devices {
    fn functions(&self) -> Result<Vec<Function>> {
        self.look()
    }

    fn function(&self, pci: Pci) -> Result<Function> {
        self.look_at(pci)?.ok_or_else(|| devices::missing(pci))
    }

    fn group_holders(&self, group: u32) -> Result<Vec<Holder>> {
        Ok(self.holders_by_group()?.remove(&group).unwrap_or_default())
    }

    fn holders(&self) -> Result<BTreeMap<u32, Vec<Holder>>> {
        self.holders_by_group()
    }

    fn vbios_sha256(&self, pci: Pci) -> Result<Option<Sha256>> {
        self.turns.of(pci, || self.rom(pci))
    }

    fn check_passthrough(&self, memory_mib: u64) -> Result<()> {
        let (memlock_of, memlock_bytes) = self.sys.memlock()?;
        let means = Means {
            has_kvm: self.facts.kvm_present()?,
            has_groups: !self.sys.names("sys/kernel/iommu_groups")?.is_empty(),
            has_vfio: self.sys.has("sys/module/vfio_pci"),
            memlock_bytes,
            memlock_of,
        };
        devices::check_passthrough(&means, memory_mib)
    }

    fn ensure_vfio_bound(&self, pci: Pci) -> Result<Bound> {
        self.bind(pci)
    }

    fn reset(&self, pci: Pci, baseline: Option<Sha256>) -> Result<ResetProof> {
        self.turns.of(pci, || self.reset_with_proof(pci, baseline))
    }
}
