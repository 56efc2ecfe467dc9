//! Which slots a task may be signed for: those that its allocation holds, as they were approved, to the last field.
//! Called by whoever signs, under the node's lock.

use base::Change;
use base::http::{Answer, ApiError};
use model::id::{AllocationId, NodeId, OpId, SlotId};
use model::signal::Code;
use model::state::SlotState;
use model::task::Task;
use model::task::slot::Slot;
use uuid::Uuid;

use super::state;
use super::store::{self, SlotRow};

/// The slots that the task is about; none for a task that is about none.
pub(crate) async fn admit(change: &mut Change, node: NodeId, task: &Task, op: OpId) -> Answer<Option<Vec<Uuid>>> {
    let (allocation, slots) = match task {
        Task::VmProvision(params) => (params.allocation_id, &params.slots),
        Task::VmRelease(params) => (params.allocation_id, &params.slots),
        Task::HealthProbe(_)
        | Task::TopologyDiscover(_)
        | Task::ProvisionUser(_)
        | Task::DeprovisionUser(_)
        | Task::VmPower(_) => return Ok(None),
    };
    let ids: Vec<Uuid> = slots.iter().map(|slot| slot.slot_id.uuid()).collect();
    let rows = store::these(change.conn(), node, &ids).await?;
    for slot in slots {
        let row = rows
            .iter()
            .find(|row| row.id() == slot.slot_id)
            .ok_or_else(|| ApiError::new(Code::NotFound).message(format!("this node has no {}", slot.slot_id)))?;
        if task.task_type().gives() {
            may_be_given(row, slot, allocation, op)?;
        } else {
            may_be_taken(change, row, slot, allocation).await?;
        }
    }
    Ok(Some(ids))
}

fn may_be_given(row: &SlotRow, slot: &Slot, allocation: AllocationId, op: OpId) -> Answer<()> {
    let theirs = row.allocation_id == Some(allocation.uuid());
    let reserved = row.state()? == SlotState::Reserved;
    // A later task of the operation that a node was given before.
    let under_way = row.state()? == SlotState::Leased && row.dirty_op == Some(op.uuid());
    if !theirs || !(reserved || under_way) {
        return Err(not_so(row.id(), &row.state, "not reserved for this allocation"));
    }
    if let Some(detail) = row.fault_detail.as_ref().filter(|_| row.fault.is_some()) {
        let what = format!("{}: {detail}", row.id().short());
        return Err(ApiError::new(Code::SlotDevicesChanged).message(what));
    }
    if row.as_signed()? != *slot {
        let what = format!("{} was approved with other devices or addresses", row.id().short());
        return Err(ApiError::new(Code::SlotDevicesChanged).message(what));
    }
    Ok(())
}

/// What is to be wiped must be this slot's, whoever asks; a leased one is on its way out from now on.
async fn may_be_taken(change: &mut Change, row: &SlotRow, slot: &Slot, allocation: AllocationId) -> Answer<()> {
    let same_devices = row.pci_address == slot.pci_address.to_string()
        && row.fabric_device == slot.fabric_device.map(|pci| pci.to_string())
        && row.nvme_serial == slot.nvme_serial.as_str()
        && row.nvme_wwn == slot.nvme_wwn.as_str();
    if !same_devices {
        return Err(Code::SlotDevicesChanged.into());
    }
    let theirs = row.allocation_id == Some(allocation.uuid());
    match row.state()? {
        SlotState::Leased if theirs => {
            state::enter(change, row, SlotState::Releasing, "its release was asked for").await
        }
        SlotState::Releasing if theirs => Ok(()),
        SlotState::Quarantined => Ok(()),
        SlotState::Candidate
        | SlotState::Free
        | SlotState::Reserved
        | SlotState::Leased
        | SlotState::Releasing
        | SlotState::Rejected
        | SlotState::Retired => Err(not_so(row.id(), &row.state, "not this allocation's to release")),
    }
}

fn not_so(slot: SlotId, state: &str, what: &str) -> ApiError {
    ApiError::new(Code::StateConflict).message(format!("{} is {state} and {what}", slot.short()))
}
