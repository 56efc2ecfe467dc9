//! Giving a device to vfio-pci, and resetting it. Every write is checked by reading everything anew: what counts is
//! what the kernel says afterwards.

use model::digest::Sha256;
use model::proof::ResetProof;
use model::value::Pci;

use super::{Devices, PCI};
use crate::devices::{self, VFIO_PCI};
use crate::{Bound, Facts as _, Function, Result};

impl Devices {
    pub(super) fn bind(&self, pci: Pci) -> Result<Bound> {
        let all = self.look()?;
        let plan = devices::plan(pci, &all)?;
        for function in &plan.to_bind {
            self.take(*function)?;
        }
        let of_the_device = all
            .iter()
            .filter(|f| f.iommu_group == Some(plan.group) && f.pci.same_device(pci));
        for function in of_the_device.filter(|f| f.d3cold_allowed == Some(true)) {
            self.write(&format!("{PCI}/{}/d3cold_allowed", function.pci), "0")?;
        }
        devices::verify_bound(pci, plan.group, &self.look()?)
    }

    /// The override comes first: from then on no other driver can have it, whoever looks for one.
    fn take(&self, pci: Pci) -> Result<()> {
        self.write(&format!("{PCI}/{pci}/driver_override"), VFIO_PCI)?;
        let unbind = format!("{PCI}/{pci}/driver/unbind");
        if self.sys.has(&unbind) {
            self.write(&unbind, &pci.to_string())?;
        }
        self.write("sys/bus/pci/drivers_probe", &pci.to_string())
    }

    pub(super) fn reset_with_proof(&self, pci: Pci, baseline: Option<Sha256>) -> Result<ResetProof> {
        let before = self.look_at(pci)?.ok_or_else(|| devices::missing(pci))?;
        if let Some(group) = before.iommu_group
            && let Some(holder) = self.holders_by_group()?.get(&group).and_then(|holders| holders.first())
        {
            return Err(devices::busy(pci, holder));
        }
        let Some(method) = before.reset_methods.first().cloned() else {
            return Err(devices::reset_failed(pci, "the kernel knows no way to reset it"));
        };
        // Awake is what has to be shown.
        self.awake(pci, || self.reset_one_awake(&before, method, baseline))
    }

    fn reset_one_awake(&self, before: &Function, method: String, baseline: Option<Sha256>) -> Result<ResetProof> {
        let pci = before.pci;
        // A driver that works with a device does not expect it to forget everything: it lets go first, and looks anew.
        let driven = before.driver.as_deref().is_some_and(|driver| driver != VFIO_PCI);
        if driven {
            self.write(&format!("{PCI}/{pci}/driver/unbind"), &pci.to_string())?;
        }
        let refused = self.written(&format!("{PCI}/{pci}/reset"), "1")?;
        if driven {
            self.write("sys/bus/pci/drivers_probe", &pci.to_string())?;
        }
        if let Some(words) = refused {
            return Err(devices::reset_failed(pci, format!("the kernel refused: {words}")));
        }
        let after = self
            .look_at(pci)?
            .ok_or_else(|| devices::reset_failed(pci, "it is gone"))?;
        // One that sleeps proves nothing, whatever its ROM is.
        let rom = match devices::sleeps(&after.power_state) {
            true => None,
            false => self.rom(pci)?,
        };
        devices::prove_reset(
            before,
            &after,
            (method, 0),
            (rom, baseline),
            self.facts.kernel_version()?,
        )
    }

    /// What nobody uses the kernel puts to sleep. Not during this; afterwards it may again.
    pub(super) fn awake<T>(&self, pci: Pci, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let control = format!("{PCI}/{pci}/power/control");
        if self.sys.optional(&control)?.is_none_or(|control| control != "auto") {
            return work();
        }
        self.write(&control, "on")?;
        let done = work();
        let restored = self.write(&control, "auto");
        let done = done?;
        restored.map(|()| done)
    }
}
