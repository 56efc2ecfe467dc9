//! An operator's word on a slot: into service, out of it, or out of everybody's hands. Approval takes the slot as the
//! latest discovery saw it and is refused while anything stands in its way.

use base::Change;
use base::http::{Answer, ApiError};
use model::id::AllocationId;
use model::signal::Code;
use model::state::SlotState;
use serde_json::json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::store::SlotRow;
use super::{state, store};

/// Into service, or, where it is, accepted as it is now.
pub(super) async fn approve(change: &mut Change, slot: &SlotRow) -> Answer<()> {
    let from = slot.state()?;
    match from {
        SlotState::Candidate | SlotState::Rejected | SlotState::Retired => {}
        SlotState::Free if slot.fault.is_some() || !slot.warnings().is_empty() => {}
        SlotState::Free => return Ok(()),
        SlotState::Reserved | SlotState::Leased | SlotState::Releasing => {
            return Err(conflict(
                slot,
                "a tenant has it; it can be approved anew once it is free",
            ));
        }
        SlotState::Quarantined => return Err(quarantined(slot)),
    }
    let found: Option<OffsetDateTime> = sqlx::query_scalar("select topology_at from node where id = $1")
        .bind(slot.node_id)
        .fetch_one(change.conn())
        .await?;
    if found.is_none_or(|at| slot.seen_at < at) {
        let what = format!("{} was not among what the latest discovery found", slot.id().short());
        return Err(ApiError::new(Code::SlotDevicesChanged)
            .message(what)
            .hint(format!("gpuaas node discover {}", slot.node_name)));
    }
    if let Some(first) = slot.blockers().first() {
        let what = format!("{} {}: {}", first.code, first.subject, first.detail);
        return Err(ApiError::new(Code::SlotBlocked).message(what).hint(first.fix.clone()));
    }
    not_another(change, slot).await?;
    let at = OffsetDateTime::from(change.at());
    let by = format!("{}:{}", change.actor().kind.as_str(), change.actor().id);
    sqlx::query(
        "update slot set baseline = gpu, approved_at = $2, approved_by = $3, fault = null, fault_detail = null,
             fault_since = null, warnings = '[]' where id = $1",
    )
    .bind(slot.id)
    .bind(at)
    .bind(by)
    .execute(change.conn())
    .await?;
    change.detail(
        json!({ "node": slot.node(), "gpu": slot.pci_address, "disk": slot.nvme_serial, "approved": slot.gpu }),
    );
    state::enter(change, slot, SlotState::Free, "approved").await
}

/// Two slots in service share nothing; and a disk that holds a tenant's data elsewhere is not given out here.
async fn not_another(change: &mut Change, slot: &SlotRow) -> Answer<()> {
    for other in store::of_node(&mut *change.conn(), slot.node()).await? {
        if other.id == slot.id || !other.state()?.in_service() {
            continue;
        }
        // Of one that was given up only the disk is still taken.
        let stands = other.disk_gone_at.is_none();
        let shared = [
            (
                stands && other.slot_index == slot.slot_index,
                format!("index {}", slot.slot_index),
            ),
            (
                stands && other.pci_address == slot.pci_address,
                format!("GPU {}", slot.pci_address),
            ),
            (
                stands && other.fabric_device.is_some() && other.fabric_device == slot.fabric_device,
                "fabric function".to_owned(),
            ),
            (
                other.nvme_serial == slot.nvme_serial && other.nvme_wwn == slot.nvme_wwn,
                format!("disk {}", slot.nvme_serial),
            ),
        ];
        if let Some((_, what)) = shared.into_iter().find(|(same, _)| *same) {
            let other_is = format!("{} has the same {what} and is {}", other.id(), other.state);
            return Err(ApiError::new(Code::SlotConflict)
                .message(other_is)
                .hint(format!("gpuaas slot show {}", other.id())));
        }
    }
    let elsewhere: Option<Uuid> = sqlx::query_scalar(
        "select s.id from slot s join node n on n.id = s.node_id
         where s.nvme_serial = $1 and s.nvme_wwn = $2 and s.node_id <> $3 and not n.simulated
           and (s.dirty_op is not null or s.quarantine_no is not null) limit 1",
    )
    .bind(&slot.nvme_serial)
    .bind(&slot.nvme_wwn)
    .bind(slot.node_id)
    .fetch_optional(change.conn())
    .await?;
    match elsewhere.filter(|_| !slot.simulated) {
        None => Ok(()),
        Some(other) => {
            let other = model::id::SlotId::from(other);
            let what = format!(
                "the disk {} was last seen in {other}, with a tenant's data on it",
                slot.nvme_serial
            );
            Err(ApiError::new(Code::SlotConflict)
                .message(what)
                .hint(format!("gpuaas slot rewipe {other}")))
        }
    }
}

/// Out of service, or never into it. What may hold a tenant's data stays until it is wiped.
pub(super) async fn reject(change: &mut Change, slot: &SlotRow, reason: &str) -> Answer<()> {
    match slot.state()? {
        SlotState::Candidate => state::enter(change, slot, SlotState::Rejected, reason).await,
        SlotState::Free => state::enter(change, slot, SlotState::Retired, reason).await,
        SlotState::Rejected | SlotState::Retired => Ok(()),
        SlotState::Reserved | SlotState::Leased | SlotState::Releasing => {
            Err(conflict(slot, "a tenant has it; it can be rejected once it is free"))
        }
        SlotState::Quarantined => Err(quarantined(slot)),
    }
}

/// Somebody does not trust it. A tenant's slot goes there by itself if its release fails.
pub(super) async fn quarantine(change: &mut Change, slot: &SlotRow, reason: &str) -> Answer<()> {
    match slot.state()? {
        SlotState::Quarantined => Ok(()),
        SlotState::Free => state::quarantine(change, slot, Code::SlotQuarantined, reason).await,
        // Its release came to nothing: a wipe by an operator's word is what is left.
        SlotState::Releasing if slot.is_untended(change.at())? => {
            state::quarantine(change, slot, Code::SlotQuarantined, reason).await
        }
        SlotState::Reserved | SlotState::Leased | SlotState::Releasing => {
            Err(conflict(slot, "a tenant has it; release the allocation first"))
        }
        SlotState::Candidate | SlotState::Rejected | SlotState::Retired => {
            Err(conflict(slot, "it is not in service, so nobody gets it anyway"))
        }
    }
}

/// A verb that does not fit its state, and what does.
pub(super) fn conflict(slot: &SlotRow, why: &str) -> ApiError {
    ApiError::new(Code::StateConflict)
        .message(format!("{} is {}: {why}", slot.id().short(), slot.state))
        .hint(what_fits(slot))
        .detail("state", slot.state.as_str())
}

fn what_fits(slot: &SlotRow) -> String {
    let id = slot.id().short();
    match slot.state() {
        Ok(SlotState::Candidate) => format!("`gpuaas slot approve {id}`, or `gpuaas slot reject {id} --reason WHY`"),
        Ok(SlotState::Free) => {
            format!(
                "it is in service; `gpuaas slot quarantine {id} --reason WHY` or `gpuaas slot reject {id} --reason WHY`"
            )
        }
        Ok(SlotState::Quarantined) => format!("`gpuaas slot rewipe {id}`"),
        Ok(SlotState::Reserved | SlotState::Leased) if slot.allocation_id.is_some() => {
            let allocation = slot.allocation_id.map(AllocationId::from);
            let allocation = allocation.map(|id| id.short()).unwrap_or_default();
            format!("`gpuaas allocation release {allocation} --reason WHY` frees it")
        }
        Ok(SlotState::Rejected | SlotState::Retired) => {
            format!("it is out of service; `gpuaas slot approve {id}` puts it back")
        }
        Ok(SlotState::Reserved | SlotState::Leased | SlotState::Releasing) | Err(_) => {
            format!("`gpuaas slot show {id}` says what it waits for")
        }
    }
}

pub(super) fn quarantined(slot: &SlotRow) -> ApiError {
    ApiError::new(Code::SlotQuarantined).hint(format!("gpuaas slot rewipe {}", slot.id()))
}
