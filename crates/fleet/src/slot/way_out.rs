//! Ways out for slots that would stand still for ever: one that was reserved for a task which never came, and one in
//! quarantine whose disk is not on the host any more. The disk itself has no way out: whatever held a tenant's data and
//! was not proved clean is given to nobody, wherever it turns up.

use base::Change;
use base::http::{Answer, ApiError};
use model::id::AllocationId;
use model::signal::Code;
use model::state::SlotState;
use model::task::topology_discover::Output;
use serde_json::json;
use sqlx::types::Json;
use time::OffsetDateTime;

use super::approve::conflict;
use super::lease;
use super::store::SlotRow;

/// All that its allocation has reserved and nobody makes.
pub(super) async fn give_back(change: &mut Change, slot: &SlotRow) -> Answer<()> {
    let allocation = slot.allocation_id.map(AllocationId::from);
    match allocation.filter(|_| slot.state == SlotState::Reserved.as_str()) {
        Some(allocation) if slot.is_untended(change.at())? => lease::unreserve(change, allocation).await.map(drop),
        Some(_) if slot.last_task.is_none() => Err(conflict(slot, "its allocation is about to be made")),
        Some(_) => Err(conflict(slot, "a task about it is on its way; cancel that first")),
        None => Err(conflict(slot, "only what is reserved can be given back")),
    }
}

/// The slot stays in quarantine, and stops standing in the way of its other devices.
pub(super) async fn disk_gone(change: &mut Change, slot: &SlotRow, reason: &str) -> Answer<()> {
    if slot.state()? != SlotState::Quarantined {
        return Err(conflict(slot, "only a slot in quarantine can be given up"));
    }
    if slot.disk_gone_at.is_some() {
        return Ok(());
    }
    not_on_the_host(change, slot).await?;
    devices_are_reset(change, slot).await?;
    sqlx::query("update slot set disk_gone_at = $2, version = version + 1 where id = $1")
        .bind(slot.id)
        .bind(OffsetDateTime::from(change.at()))
        .execute(change.conn())
        .await?;
    let data = json!({ "node_id": slot.node(), "disk": slot.nvme_serial, "reason": reason });
    change.event("slot.disk_gone", slot.id(), data);
    Ok(())
}

/// By a discovery that is younger than the quarantine.
async fn not_on_the_host(change: &mut Change, slot: &SlotRow) -> Answer<()> {
    let found: Option<(Json<Output>, OffsetDateTime)> =
        sqlx::query_as("select found, discovered_at from node_topology where node_id = $1")
            .bind(slot.node_id)
            .fetch_optional(change.conn())
            .await?;
    let since = slot.quarantine_since.unwrap_or(slot.state_since);
    let look = format!("gpuaas node discover {}", slot.node_name);
    let Some((Json(found), _)) = found.filter(|(_, at)| *at > since) else {
        let what = "nobody has looked at the host's disks since it went into quarantine";
        return Err(ApiError::new(Code::DiskStillThere).message(what).hint(look));
    };
    let same = |serial: &str, wwn: &str| serial == slot.nvme_serial && wwn == slot.nvme_wwn;
    match found
        .nvme_devices
        .iter()
        .any(|disk| same(disk.serial.as_str(), disk.wwn.as_str()))
    {
        false => Ok(()),
        true => {
            let what = format!("the disk {} is on the host", slot.nvme_serial);
            let hint = format!("take it out, then {look}; or gpuaas slot rewipe {}", slot.id());
            Err(ApiError::new(Code::DiskStillThere).message(what).hint(hint))
        }
    }
}

/// Whatever a tenant left in the memory of GPU and fabric function is gone, by a proof that is younger than the dirt.
async fn devices_are_reset(change: &mut Change, slot: &SlotRow) -> Answer<()> {
    let devices: Vec<&str> = std::iter::once(slot.pci_address.as_str())
        .chain(slot.fabric_device.as_deref())
        .collect();
    let unproved: Vec<String> = sqlx::query_scalar(
        "select device from unnest($2::text[]) as device
         where exists (select from slot_dirt d where d.slot_id = $1 and d.ended_by is null and not exists (
             select from slot_proof p where p.slot_id = $1 and p.kind = 'reset' and p.subject = device and p.clean
               and p.no > d.no))",
    )
    .bind(slot.id)
    .bind(&devices)
    .fetch_all(change.conn())
    .await?;
    match unproved.first() {
        None => Ok(()),
        Some(device) => {
            let what = format!("it is not proved that {device} was reset after its last tenant");
            let hint = format!(
                "gpuaas slot rewipe {}; it resets before it looks for the disk",
                slot.id()
            );
            Err(ApiError::new(Code::WipeUnproved).message(what).hint(hint))
        }
    }
}
