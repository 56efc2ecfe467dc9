//! A slot as a signed task names it: the devices that go to the guest, and by what else each of them can be known.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ParamsError;
use crate::id::SlotId;
use crate::value::{DiskId, DiskIdentity, MacAddress, Name, Pci, Serial};

pub const MAX_SLOTS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    pub slot_id: SlotId,
    pub slot_index: u32,
    /// The GPU.
    pub pci_address: Pci,
    /// A function of the fabric card; null where a slot has none.
    pub fabric_device: Option<Pci>,
    pub nvme_device: DiskId,
    pub nvme_serial: Serial,
    pub nvme_wwn: Serial,
    pub nvme_size_bytes: u64,
    pub numa_node: u32,
    #[serde(default = "vcpu_count")]
    pub vcpu_count: u32,
    #[serde(default = "memory_mib")]
    pub memory_mib: u64,
    pub mac_address: MacAddress,
    pub private_ip: Ipv4Addr,
}

const fn vcpu_count() -> u32 {
    12
}

const fn memory_mib() -> u64 {
    65_536
}

impl Slot {
    pub fn disk(&self) -> DiskIdentity {
        DiskIdentity {
            by_id: self.nvme_device.clone(),
            serial: self.nvme_serial.clone(),
            wwn: self.nvme_wwn.clone(),
            size_bytes: self.nvme_size_bytes,
        }
    }

    /// What is handed to the guest: the GPU, and the fabric function if there is one.
    pub fn devices(&self) -> impl Iterator<Item = Pci> {
        [Some(self.pci_address), self.fabric_device].into_iter().flatten()
    }
}

/// One to sixteen, each thing named once. Says which field is wrong.
pub(super) fn check(slots: &[Slot]) -> Result<(), ParamsError> {
    let wrong = |at: usize, field: &str, why: &str| Err(ParamsError(format!("slots[{at}].{field}: {why}")));
    if !(1..=MAX_SLOTS).contains(&slots.len()) {
        let why = format!("slots: 1 to {MAX_SLOTS}, not {}", slots.len());
        return Err(ParamsError(why));
    }
    let mut seen = BTreeSet::new();
    for (at, slot) in slots.iter().enumerate() {
        let named = [
            ("slot_id", slot.slot_id.to_string()),
            ("slot_index", slot.slot_index.to_string()),
            ("pci_address", slot.pci_address.to_string()),
            ("nvme_device", slot.nvme_device.to_string()),
            ("nvme_serial", slot.nvme_serial.to_string()),
            ("mac_address", slot.mac_address.to_string()),
            ("private_ip", slot.private_ip.to_string()),
        ];
        for (field, value) in named {
            if !seen.insert((field, value)) {
                return wrong(at, field, "is another slot's too");
            }
        }
        if let Some(fabric) = slot.fabric_device
            && !seen.insert(("pci_address", fabric.to_string()))
        {
            return wrong(at, "fabric_device", "is named already");
        }
        if slot.slot_index > 255 {
            return wrong(at, "slot_index", "0 to 255");
        }
        if slot.nvme_size_bytes < 1 << 20 || slot.nvme_size_bytes >= 1 << 53 {
            return wrong(at, "nvme_size_bytes", "from 1 MiB, below 2^53");
        }
        if slot.numa_node > 1023 {
            return wrong(at, "numa_node", "0 to 1023");
        }
        if !(1..=512).contains(&slot.vcpu_count) {
            return wrong(at, "vcpu_count", "1 to 512");
        }
        if !(128..=8 << 20).contains(&slot.memory_mib) {
            return wrong(at, "memory_mib", "128 to 8388608");
        }
        if !slot.private_ip.is_private() {
            return wrong(at, "private_ip", "is not of a private network");
        }
    }
    Ok(())
}

/// What a VM's tasks supersede: the VM itself and each of its slots.
pub(super) fn subjects(vm: &Name, slots: &[Slot]) -> Vec<String> {
    let slots = slots.iter().map(|slot| format!("slot/{}", slot.slot_id));
    std::iter::once(vm_subject(vm)).chain(slots).collect()
}

pub(super) fn vm_subject(vm: &Name) -> String {
    format!("vm/{vm}")
}

/// In the order of their index: the first one's disk boots, and its addresses are the VM's.
pub fn in_order(slots: &[Slot]) -> Vec<&Slot> {
    let mut slots: Vec<&Slot> = slots.iter().collect();
    slots.sort_by_key(|slot| slot.slot_index);
    slots
}
