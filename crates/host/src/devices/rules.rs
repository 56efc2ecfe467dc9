//! What both machines judge alike: which functions may be bound, when a group is viable, what a reset has to show.
//! Pure: the machines look and act, this decides, and every refusal has the code of the passthrough table.

use std::time::Duration;

use model::digest::Sha256;
use model::proof::ResetProof;
use model::signal::Code;
use model::value::Pci;

use super::{Bound, Function, Holder, VFIO_PCI};
use crate::{Error, Result};

const MIB: u64 = 1 << 20;

fn refused(code: Code, pci: Pci, why: impl Into<String>) -> Error {
    Error::Device {
        code,
        subject: pci.to_string(),
        why: why.into(),
    }
}

pub(crate) fn missing(pci: Pci) -> Error {
    refused(Code::DeviceMissing, pci, "no such function on the host")
}

pub(crate) fn busy(pci: Pci, holder: &Holder) -> Error {
    let of = holder.domain.as_ref().map(|domain| format!(" of domain {domain}"));
    let why = format!(
        "process {} ({}){} has its group open",
        holder.pid,
        holder.program,
        of.unwrap_or_default()
    );
    refused(Code::VfioGroupBusy, pci, why)
}

pub(crate) fn reset_failed(pci: Pci, why: impl Into<String>) -> Error {
    refused(Code::GpuResetFailed, pci, why)
}

/// Whatever it shows now is not it.
pub(crate) fn sleeps(power_state: &str) -> bool {
    power_state.starts_with("D3")
}

pub(crate) fn asleep(pci: Pci, power_state: &str) -> Error {
    let why = format!("it is in {power_state} and does not wake");
    refused(Code::GpuUnreachableD3cold, pci, why)
}

pub(crate) fn write_timeout(path: &str, limit: Duration) -> Error {
    Error::Device {
        code: Code::HostWriteTimeout,
        subject: path.to_owned(),
        why: format!("the kernel did not finish a write within {} ms", limit.as_millis()),
    }
}

/// What a guest with devices needs of the host.
pub(crate) struct Means {
    pub(crate) has_kvm: bool,
    pub(crate) has_groups: bool,
    pub(crate) has_vfio: bool,
    /// None: no limit.
    pub(crate) memlock_bytes: Option<u64>,
    /// Whose limit it is.
    pub(crate) memlock_of: String,
}

pub(crate) fn check_passthrough(means: &Means, memory_mib: u64) -> Result<()> {
    let lacks = |code, why: String| {
        let subject = "host".to_owned();
        Err(Error::Device { code, subject, why })
    };
    if !means.has_kvm {
        return lacks(Code::KvmUnavailable, Code::KvmUnavailable.meaning().to_owned());
    }
    if !means.has_groups {
        return lacks(Code::IommuOff, Code::IommuOff.meaning().to_owned());
    }
    if !means.has_vfio {
        return lacks(Code::VfioNotLoaded, Code::VfioNotLoaded.meaning().to_owned());
    }
    let needed = memory_mib.saturating_mul(MIB).saturating_mul(5) / 4;
    match means.memlock_bytes {
        Some(limit) if limit < needed => {
            let why = format!("{} may lock {limit} bytes, the guest needs {needed}", means.memlock_of);
            lacks(Code::VfioMemlockLow, why)
        }
        Some(_) | None => Ok(()),
    }
}

/// What has to be bound, in which group.
pub(crate) struct Plan {
    pub(crate) group: u32,
    pub(crate) to_bind: Vec<Pci>,
}

/// The function itself and the others of its device that are not on vfio-pci yet. Nobody else's function is taken from
/// its driver: one of another device in the group makes the group not viable, and is named.
pub(crate) fn plan(pci: Pci, all: &[Function]) -> Result<Plan> {
    let own = all.iter().find(|f| f.pci == pci).ok_or_else(|| missing(pci))?;
    let Some(group) = own.iommu_group else {
        return Err(refused(Code::IommuOff, pci, "it is in no IOMMU group"));
    };
    if let Some(console) = &own.framebuffer {
        return Err(refused(
            Code::GpuHeldByFramebuffer,
            pci,
            format!("{console} draws on it"),
        ));
    }
    unviable(pci, group, all.iter().filter(|f| !f.pci.same_device(pci)))?;
    let members = all
        .iter()
        .filter(|f| f.iommu_group == Some(group) && f.pci.same_device(pci));
    let to_bind = members.filter(|f| !f.is_bridge() && f.driver.as_deref() != Some(VFIO_PCI));
    Ok(Plan {
        group,
        to_bind: to_bind.map(|f| f.pci).collect(),
    })
}

fn unviable<'a>(pci: Pci, group: u32, mut others: impl Iterator<Item = &'a Function>) -> Result<()> {
    match others.find(|f| f.iommu_group == Some(group) && !f.is_viable()) {
        None => Ok(()),
        Some(other) => {
            let driver = other.driver.as_deref().unwrap_or("no driver");
            let why = format!("{} of its IOMMU group {group} is on {driver}", other.pci);
            Err(refused(Code::VfioGroupNotViable, pci, why))
        }
    }
}

/// Looks at everything anew.
pub(crate) fn verify_bound(pci: Pci, planned: u32, all: &[Function]) -> Result<Bound> {
    let own = all.iter().find(|f| f.pci == pci).ok_or_else(|| missing(pci))?;
    let Some(group) = own.iommu_group.filter(|group| *group == planned) else {
        let now = own.iommu_group.map_or("none".to_owned(), |group| group.to_string());
        let why = format!("its IOMMU group was {planned} and is {now}");
        return Err(refused(Code::VfioGroupChanged, pci, why));
    };
    unviable(pci, group, all.iter())?;
    let members = || all.iter().filter(|f| f.iommu_group == Some(group));
    if let Some(asleep) = members().find(|f| !f.config_readable || f.power_state == "D3cold") {
        let why = format!(
            "{} is in {} and its configuration space cannot be read",
            asleep.pci, asleep.power_state
        );
        return Err(refused(Code::GpuUnreachableD3cold, pci, why));
    }
    if own.driver.as_deref() != Some(VFIO_PCI) {
        let why = format!(
            "it is on {} and not on {VFIO_PCI}",
            own.driver.as_deref().unwrap_or("no driver")
        );
        return Err(refused(Code::VfioGroupNotViable, pci, why));
    }
    let functions = members().filter(|f| f.driver.as_deref() == Some(VFIO_PCI));
    Ok(Bound {
        group,
        functions: functions.map(|f| f.pci).collect(),
    })
}

/// A proof, or what it lacks. There is no "continue".
pub(crate) fn prove_reset(
    before: &Function,
    after: &Function,
    (reset_method, rc): (String, i32),
    (vbios_sha256, baseline): (Option<Sha256>, Option<Sha256>),
    kernel_version: String,
) -> Result<ResetProof> {
    let pci = before.pci;
    if rc != 0 {
        return Err(reset_failed(pci, format!("the kernel answered with error {rc}")));
    }
    if !after.config_readable {
        return Err(reset_failed(pci, "its configuration space reads as all ones"));
    }
    if after.power_state != "D0" {
        return Err(reset_failed(
            pci,
            format!("it is in {} and not in D0", after.power_state),
        ));
    }
    if baseline.is_some() && vbios_sha256 != baseline {
        return Err(reset_failed(
            pci,
            "its ROM is not the one that it had before the tenant",
        ));
    }
    if after.driver != before.driver {
        let name = |driver: &Option<String>| driver.clone().unwrap_or_else(|| "no driver".to_owned());
        let why = format!("it was on {} and is on {}", name(&before.driver), name(&after.driver));
        return Err(refused(Code::GpuNotReturned, pci, why));
    }
    Ok(ResetProof {
        pci_address: pci,
        reset_method,
        rc,
        config_readable: true,
        power_state: after.power_state.clone(),
        driver: after.driver.clone(),
        vbios_sha256,
        vbios_compared: baseline.is_some(),
        kernel_version,
        memory_overwritten: false,
    })
}
