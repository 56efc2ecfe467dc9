//! What the tasks of slices have in common: whose VM it is, on which slots, and the two ways in which devices are made
//! fit for the next tenant.

mod reset;
mod wipe;

use host::{Host, OpenDisk, Owner, Plug, Slice};
use model::id::{AllocationId, SlotId};
use model::signal::Code;
use model::task::slot::{self, Slot};
use model::time::Timestamp;
use model::value::{Name, Nonce, Pci};
use steps::Fail;

use super::{Surroundings, fail, failed};
use crate::Clock;

pub(super) use wipe::Begun;

/// A VM and its slots, in the order of their index.
pub(super) struct Hold {
    pub(super) host: Host,
    pub(super) owner: Owner,
    pub(super) vm: Name,
    pub(super) slots: Vec<Slot>,
    nonce: Nonce,
    clock: Clock,
}

impl Hold {
    pub(super) fn new(
        around: &Surroundings,
        allocation: AllocationId,
        vm: &Name,
        slots: &[Slot],
        nonce: Option<Nonce>,
    ) -> Self {
        Self {
            host: around.host.clone(),
            owner: Owner {
                allocation,
                op: around.op_id,
                epoch: around.epoch,
            },
            vm: vm.clone(),
            slots: slot::in_order(slots).into_iter().cloned().collect(),
            nonce: nonce.unwrap_or_else(|| Nonce::of_task(around.task_id)),
            clock: around.clock.clone(),
        }
    }

    pub(super) fn slice(&self) -> Slice {
        Slice {
            vm: self.vm.clone(),
            allocation: self.owner.allocation,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn slot_ids(&self) -> Vec<SlotId> {
        self.slots.iter().map(|slot| slot.slot_id).collect()
    }

    pub(super) fn devices(&self) -> impl Iterator<Item = Pci> {
        self.slots.iter().flat_map(Slot::devices)
    }

    /// The first slot's: the VM has one.
    pub(super) fn plug(&self) -> Plug {
        Plug {
            vm: self.vm.clone(),
            allocation: self.owner.allocation,
            slot_index: self.slots.first().map_or(0, |slot| slot.slot_index),
        }
    }

    /// No VM but our own has a device or disk of these slots. Nothing else would tell: a device can be taken from a
    /// running guest without a word, and a guest's disk is not opened exclusively.
    pub(super) fn refuse_foreign_guests(&self) -> Result<(), Fail> {
        self.refuse_guests(Some(&self.vm))
    }

    pub(super) fn refuse_guests(&self, but: Option<&Name>) -> Result<(), Fail> {
        let machines = &self.host.machines;
        for slot in &self.slots {
            for device in slot.devices() {
                let holder = machines.holder_of_device(device).map_err(failed)?;
                refuse(holder, but, &device.to_string(), Code::VfioGroupBusy)?;
            }
            let holder = machines.holder_of_disk(&slot.nvme_device).map_err(failed)?;
            refuse(holder, but, slot.nvme_device.as_str(), Code::DiskGuard)?;
        }
        Ok(())
    }

    /// The whole guard before a write: the lease is our allocation's, no VM has the disk, it is the one that was
    /// signed, and nobody uses it. Kept open, nobody can.
    pub(super) fn guarded(&self, slot: &Slot) -> Result<Box<dyn OpenDisk>, Fail> {
        let holder = self.host.leases.holder(slot.slot_id).map_err(failed)?;
        if holder.is_none_or(|holder| holder.allocation != self.owner.allocation) {
            let why = format!("{}: the lease is not {}'s", slot.slot_id, self.owner.allocation);
            return Err(fail(Code::SlotLeased, why));
        }
        let guest = self.host.machines.holder_of_disk(&slot.nvme_device).map_err(failed)?;
        refuse(guest, None, slot.nvme_device.as_str(), Code::DiskGuard)?;
        self.host.disks.open_guarded(&slot.disk()).map_err(failed)
    }
}

fn refuse(holder: Option<String>, but: Option<&Name>, what: &str, code: Code) -> Result<(), Fail> {
    match holder {
        Some(holder) if but.is_none_or(|own| own.as_str() != holder) => {
            Err(fail(code, format!("{what}: the VM {holder} has it")))
        }
        Some(_) | None => Ok(()),
    }
}
