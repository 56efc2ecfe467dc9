//! The pretend side of [`Devices`]: refuses what the real one refuses, with the same codes.

use std::collections::BTreeMap;

use model::digest::Sha256;
use model::proof::ResetProof;
use model::value::Pci;

use super::hardware::{Fault, Hardware};
use super::{KERNEL_VERSION, Pretend, WRITE_LIMIT};
use crate::devices::{self, VFIO_PCI};
use crate::{Bound, Devices, Function, Holder, Result};

impl Devices for Pretend {
    fn functions(&self) -> Result<Vec<Function>> {
        self.call("functions", |_, state| {
            Ok(state.hardware.functions.values().cloned().collect())
        })
    }

    fn function(&self, pci: Pci) -> Result<Function> {
        self.call("function", |_, state| {
            let mut function = state.hardware.function(pci)?.clone();
            if state.hardware.has(Fault::GroupMoves(pci)) {
                function.iommu_group = function.iommu_group.map(|group| group + 1000);
            }
            Ok(function)
        })
    }

    fn group_holders(&self, group: u32) -> Result<Vec<Holder>> {
        self.call("group_holders", |_, state| {
            Ok(state.hardware.holders.get(&group).cloned().unwrap_or_default())
        })
    }

    fn holders(&self) -> Result<BTreeMap<u32, Vec<Holder>>> {
        self.call("holders", |_, state| Ok(state.hardware.holders.clone()))
    }

    fn vbios_sha256(&self, pci: Pci) -> Result<Option<Sha256>> {
        self.call("vbios_sha256", |_, state| {
            if state.hardware.has(Fault::WriteHangs(pci)) {
                return Err(devices::write_timeout(
                    &format!("/sys/bus/pci/devices/{pci}/rom"),
                    WRITE_LIMIT,
                ));
            }
            match state.hardware.functions.get(&pci) {
                Some(function) if devices::sleeps(&function.power_state) => {
                    Err(devices::asleep(pci, &function.power_state))
                }
                Some(_) | None => Ok(state.hardware.vbios.get(&pci).copied()),
            }
        })
    }

    fn check_passthrough(&self, memory_mib: u64) -> Result<()> {
        self.call("check_passthrough", |_, state| {
            let hardware = &state.hardware;
            devices::check_passthrough(
                &devices::Means {
                    has_kvm: !hardware.no_kvm,
                    has_groups: hardware.functions.values().any(|f| f.iommu_group.is_some()),
                    has_vfio: !hardware.no_vfio,
                    memlock_bytes: hardware.memlock_bytes,
                    memlock_of: "libvirtd".to_owned(),
                },
                memory_mib,
            )
        })
    }

    fn ensure_vfio_bound(&self, pci: Pci) -> Result<Bound> {
        self.act_on("ensure_vfio_bound", &pci.to_string(), |state| state.hardware.bind(pci))
    }

    fn reset(&self, pci: Pci, baseline: Option<Sha256>) -> Result<ResetProof> {
        self.act_on("reset", &pci.to_string(), |state| state.hardware.reset(pci, baseline))
    }
}

impl Hardware {
    fn function(&self, pci: Pci) -> Result<&Function> {
        self.functions.get(&pci).ok_or_else(|| devices::missing(pci))
    }

    fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    fn bind(&mut self, pci: Pci) -> Result<Bound> {
        let all: Vec<Function> = self.functions.values().cloned().collect();
        let plan = devices::plan(pci, &all)?;
        for own in &plan.to_bind {
            if self.has(Fault::WriteHangs(*own)) {
                return Err(devices::write_timeout(
                    &format!("/sys/bus/pci/devices/{own}/driver_override"),
                    WRITE_LIMIT,
                ));
            }
            let sleeps = self.has(Fault::NeverWakes(*own));
            let moves = self.has(Fault::GroupMoves(*own));
            let highest = self.functions.values().filter_map(|f| f.iommu_group).max();
            if let Some(function) = self.functions.get_mut(own) {
                function.driver = Some(VFIO_PCI.to_owned());
                function.d3cold_allowed = function.d3cold_allowed.map(|_| false);
                if sleeps {
                    (function.power_state, function.config_readable) = ("D3cold".to_owned(), false);
                }
                if moves {
                    function.iommu_group = highest.map(|group| group + 1);
                }
            }
        }
        let all: Vec<Function> = self.functions.values().cloned().collect();
        devices::verify_bound(pci, plan.group, &all)
    }

    fn reset(&mut self, pci: Pci, baseline: Option<Sha256>) -> Result<ResetProof> {
        let before = self.function(pci)?.clone();
        if let Some(holder) = before.iommu_group.and_then(|group| self.holders.get(&group)?.first()) {
            return Err(devices::busy(pci, holder));
        }
        let Some(method) = before.reset_methods.first().cloned() else {
            return Err(devices::reset_failed(pci, "the kernel knows no way to reset it"));
        };
        if self.has(Fault::WriteHangs(pci)) {
            return Err(devices::write_timeout(
                &format!("/sys/bus/pci/devices/{pci}/reset"),
                WRITE_LIMIT,
            ));
        }
        if self.has(Fault::ResetFails(pci)) {
            return Err(devices::reset_failed(pci, "the kernel answered with error 25"));
        }
        let (loses, changes) = (self.has(Fault::ResetLosesIt(pci)), self.has(Fault::DriverChanges(pci)));
        if self.has(Fault::RomChanges(pci)) {
            self.vbios.insert(pci, Sha256::of(b"another ROM"));
        }
        self.residue.remove(&pci);
        if let Some(function) = self.functions.get_mut(&pci) {
            function.config_readable = !loses;
            function.power_state = "D0".to_owned();
            if changes {
                function.driver = Some("nouveau".to_owned());
            }
        }
        let after = self.function(pci)?;
        let rom = self.vbios.get(&pci).copied();
        devices::prove_reset(&before, after, (method, 0), (rom, baseline), KERNEL_VERSION.to_owned())
    }
}
