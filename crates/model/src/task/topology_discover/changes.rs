//! What is different since a discovery was approved: the node itself remembers none, so whoever keeps the approved one
//! compares. A changed way to reset a GPU is a reason to try one slot first; what is gone or has become another disk is
//! a reason to look at the host.

use std::collections::BTreeMap;

use super::{Blocker, CandidateSlot, GpuDevice, Output};
use crate::signal::Code;
use crate::value::Pci;

/// Sorted; empty if every approved slot is still what it was.
pub fn changes(approved: &Output, now: &Output) -> Vec<Blocker> {
    let gpus: BTreeMap<Pci, &GpuDevice> = now.gpu_devices.iter().map(|gpu| (gpu.pci_address, gpu)).collect();
    let slots: BTreeMap<Pci, &CandidateSlot> = now
        .candidate_slots
        .iter()
        .map(|slot| (slot.pci_address, slot))
        .collect();
    let mut changes = Vec::new();
    for gpu in &approved.gpu_devices {
        changes.extend(match gpus.get(&gpu.pci_address) {
            None => Some(gone(gpu)),
            Some(there) => reset_changed(gpu, there),
        });
    }
    for slot in &approved.candidate_slots {
        if let Some(there) = slots.get(&slot.pci_address) {
            changes.extend(parts_changed(slot, there));
        }
    }
    changes.sort();
    changes
}

fn gone(gpu: &GpuDevice) -> Blocker {
    Blocker {
        code: Code::DeviceMissing,
        subject: gpu.pci_address.to_string(),
        detail: "it was approved and is not on the host any more".to_owned(),
        fix: format!("lspci -D -s {}; check power and seat", gpu.pci_address),
    }
}

fn reset_changed(approved: &GpuDevice, now: &GpuDevice) -> Option<Blocker> {
    (approved.reset_method != now.reset_method).then(|| Blocker {
        code: Code::GpuResetMethodChanged,
        subject: now.pci_address.to_string(),
        detail: format!(
            "it was approved with {:?} and is reset by {:?} now",
            approved.reset_method, now.reset_method
        ),
        fix: "release one slot and read its reset proof before the others are used".to_owned(),
    })
}

fn parts_changed(approved: &CandidateSlot, now: &CandidateSlot) -> Option<Blocker> {
    let disk = |slot: &CandidateSlot| (slot.nvme_serial.clone(), slot.nvme_wwn.clone(), slot.nvme_size_bytes);
    let differs = disk(approved) != disk(now) || approved.fabric_device != now.fabric_device;
    differs.then(|| Blocker {
        code: Code::DiskGuard,
        subject: now.pci_address.to_string(),
        detail: format!(
            "it was approved with disk {} and {:?}, and is paired with {} and {:?} now",
            approved.nvme_serial, approved.fabric_device, now.nvme_serial, now.fabric_device
        ),
        fix: "gpuaas slot reject, then approve the new discovery".to_owned(),
    })
}
