//! A discovery lands: what it found becomes candidates, and what was approved is compared with it. A slot is known by
//! its devices; one in service that is not found as it was approved has a fault from then on, and nobody gets it.

use base::Change;
use base::http::Answer;
use model::id::{NodeId, derive_slot};
use model::signal::Code;
use model::state::SlotState;
use model::task::topology_discover::{Blocker, CandidateSlot, GpuDevice, Output};
use model::value::DiskIdentity;
use serde_json::json;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::store::{self, SlotRow};

/// Writes the topology and brings every slot of the node up to date. Never gives or takes one. The look may have been
/// taken at any time after `given`, when its node was given the task: of what has changed since then it proves nothing.
/// True if that leaves something open, which only a later look can tell.
pub(crate) async fn landed(
    change: &mut Change,
    node: NodeId,
    found: &Output,
    given: Option<OffsetDateTime>,
) -> Answer<bool> {
    let at = OffsetDateTime::from(change.at());
    // What is far ahead of us and of the database was written by a clock that was wrong: it says nothing of when it was.
    let wrong: OffsetDateTime = sqlx::query_scalar("select greatest($1, now()) + interval '60 seconds'")
        .bind(at)
        .fetch_one(change.conn())
        .await?;
    let changed_since = |slot: &SlotRow| {
        let last = slot.fault_since.map_or(slot.state_since, |at| at.max(slot.state_since));
        given.is_some_and(|given| last > given) && last < wrong
    };
    let mut open = false;
    sqlx::query(
        "with kept as (insert into node_topology (node_id, found, discovered_at) values ($1, $2, $3)
                       on conflict (node_id) do update set found = $2, discovered_at = $3)
         update node set topology_at = $3, version = version + 1 where id = $1",
    )
    .bind(node.uuid())
    .bind(Json(found))
    .bind(at)
    .execute(change.conn())
    .await?;
    let known = store::of_node(&mut *change.conn(), node).await?;
    let mut seen = Vec::new();
    for candidate in &found.candidate_slots {
        let sight = Sight::of(node, candidate, found);
        seen.push(sight.id);
        match known.iter().find(|slot| slot.id == sight.id) {
            None => insert(change, node, &sight).await?,
            Some(slot) if slot.approved_at.is_none() => propose_again(change, slot, &sight).await?,
            Some(slot) => {
                let (fault, warnings) = compare(slot, &sight)?;
                if changed_since(slot) {
                    open |= fault.is_some() || slot.fault.is_some();
                    continue;
                }
                let (blockers, gpu) = (json!(sight.blockers), Some(sight.gpu_json()));
                note(change, slot, fault, blockers, json!(warnings), gpu).await?;
            }
        }
    }
    for slot in known.iter().filter(|slot| !seen.contains(&slot.id)) {
        match changed_since(slot) {
            true => open |= missing(slot, found).is_some(),
            false => gone(change, slot, found).await?,
        }
    }
    let summary = &found.candidate_summary;
    change.event(
        "node.topology",
        node,
        json!({ "slots": summary.slots, "schedulable": summary.schedulable, "blockers": summary.blockers.len() }),
    );
    Ok(open)
}

/// A candidate with all that the discovery says of it.
struct Sight<'a> {
    id: Uuid,
    slot: &'a CandidateSlot,
    gpu: Option<&'a GpuDevice>,
    blockers: Vec<&'a Blocker>,
    warnings: Vec<&'a Blocker>,
}

impl<'a> Sight<'a> {
    fn of(node: NodeId, slot: &'a CandidateSlot, found: &'a Output) -> Self {
        let disk = DiskIdentity {
            by_id: slot.nvme_device.clone(),
            serial: slot.nvme_serial.clone(),
            wwn: slot.nvme_wwn.clone(),
            size_bytes: slot.nvme_size_bytes,
        };
        let gpu = found.gpu_devices.iter().find(|gpu| gpu.pci_address == slot.pci_address);
        let summary = &found.candidate_summary;
        let concerns = |list: &'a [Blocker]| list.iter().filter(|b| concerns(b, slot, gpu, found)).collect();
        Self {
            id: derive_slot(node, slot.pci_address, slot.fabric_device, &disk).uuid(),
            slot,
            gpu,
            blockers: if slot.schedulable {
                Vec::new()
            } else {
                concerns(&summary.blockers)
            },
            warnings: concerns(&summary.warnings),
        }
    }

    fn gpu_json(&self) -> serde_json::Value {
        json!(self.gpu)
    }
}

/// What names one of the slot's own devices, or no device at all: then it concerns every slot.
fn concerns(blocker: &Blocker, slot: &CandidateSlot, gpu: Option<&GpuDevice>, found: &Output) -> bool {
    let subject = blocker.subject.as_str();
    let is = |name: String| name == subject;
    let group = gpu.map(|gpu| gpu.group_members.as_slice()).unwrap_or_default();
    let own = is(slot.pci_address.to_string())
        || slot.fabric_device.is_some_and(|pci| is(pci.to_string()))
        || is(slot.nvme_device.to_string())
        || is(format!("slot {}", slot.slot_index))
        || group.iter().any(|pci| is(pci.to_string()));
    let of_a_device = found
        .gpu_devices
        .iter()
        .any(|gpu| is(gpu.pci_address.to_string()) || gpu.group_members.iter().any(|pci| is(pci.to_string())))
        || found
            .fabric_devices
            .iter()
            .any(|fabric| is(fabric.pci_address.to_string()))
        || found.nvme_devices.iter().any(|disk| is(disk.by_id.to_string()))
        || found
            .candidate_slots
            .iter()
            .any(|other| is(format!("slot {}", other.slot_index)));
    own || !of_a_device
}

async fn insert(change: &mut Change, node: NodeId, sight: &Sight<'_>) -> Answer<()> {
    let at = OffsetDateTime::from(change.at());
    let slot = sight.slot;
    sqlx::query(
        "insert into slot (id, node_id, slot_index, pci_address, fabric_device, nvme_device, nvme_serial, nvme_wwn,
             nvme_size_bytes, numa_node, vcpu_count, memory_mib, mac_address, private_ip, gpu, blockers, warnings, seen_at,
             state, state_since, state_reason, created_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
             'candidate', $18, 'discovered', $18)",
    )
    .bind(sight.id)
    .bind(node.uuid())
    .bind(slot.slot_index as i32)
    .bind(slot.pci_address.to_string())
    .bind(slot.fabric_device.map(|pci| pci.to_string()))
    .bind(slot.nvme_device.to_string())
    .bind(slot.nvme_serial.as_str())
    .bind(slot.nvme_wwn.as_str())
    .bind(slot.nvme_size_bytes as i64)
    .bind(slot.numa_node.map(|node| node as i32))
    .bind(slot.vcpu_count as i32)
    .bind(slot.memory_mib as i64)
    .bind(slot.mac_address.to_string())
    .bind(slot.private_ip.to_string())
    .bind(sight.gpu_json())
    .bind(json!(sight.blockers))
    .bind(json!(sight.warnings))
    .bind(at)
    .execute(change.conn())
    .await?;
    Ok(())
}

/// Nobody has approved it: the newest proposal counts.
async fn propose_again(change: &mut Change, slot: &SlotRow, sight: &Sight<'_>) -> Answer<()> {
    let at = OffsetDateTime::from(change.at());
    let new = sight.slot;
    sqlx::query(
        "update slot set slot_index = $2, nvme_device = $3, numa_node = $4, vcpu_count = $5, memory_mib = $6,
             mac_address = $7, private_ip = $8, gpu = $9, blockers = $10, warnings = $11, seen_at = $12,
             version = version + 1
         where id = $1",
    )
    .bind(slot.id)
    .bind(new.slot_index as i32)
    .bind(new.nvme_device.to_string())
    .bind(new.numa_node.map(|node| node as i32))
    .bind(new.vcpu_count as i32)
    .bind(new.memory_mib as i64)
    .bind(new.mac_address.to_string())
    .bind(new.private_ip.to_string())
    .bind(sight.gpu_json())
    .bind(json!(sight.blockers))
    .bind(json!(sight.warnings))
    .bind(at)
    .execute(change.conn())
    .await?;
    Ok(())
}

/// What is wrong with a slot, if anything is.
type Fault = Option<(Code, String)>;

/// Its devices are there. Are they as they were approved? What is wrong with it, and what is only to be known.
fn compare(slot: &SlotRow, sight: &Sight<'_>) -> Answer<(Fault, Vec<Blocker>)> {
    let mut warnings: Vec<Blocker> = sight.warnings.iter().map(|&b| b.clone()).collect();
    let mut fault = None;
    if let (Some(now), Some(then)) = (sight.gpu, slot.approved_gpu()) {
        // While a guest has the GPU, the host may not be able to read its ROM.
        let unreadable = now.vbios_sha256.is_none() && (slot.lease_id.is_some() || slot.quarantine_no.is_some());
        if now.vbios_sha256 != then.vbios_sha256 && !unreadable {
            let detail = format!(
                "the GPU {} has another VBIOS than when it was approved",
                now.pci_address
            );
            fault = Some((Code::SlotDevicesChanged, detail));
        }
        if now.reset_method != then.reset_method {
            let (now, then) = (now.reset_method.join(" "), then.reset_method.join(" "));
            warnings.push(Blocker {
                code: Code::GpuResetMethodChanged,
                subject: slot.pci_address.clone(),
                detail: format!("reset by {now:?}, approved with {then:?}"),
                fix: format!("try one slot first, then gpuaas slot approve {}", slot.id()),
            });
        }
    }
    let moved = slot.slot_index == sight.slot.slot_index as i32
        && (slot.mac_address != sight.slot.mac_address.to_string()
            || slot.private_ip != sight.slot.private_ip.to_string());
    if fault.is_none() && moved {
        let detail = format!(
            "its address is {} now and was {}",
            sight.slot.private_ip, slot.private_ip
        );
        fault = Some((Code::SlotDevicesChanged, detail));
    }
    // What a tenant holds is busy, and says so; only what could be given has to be ready to be.
    let idle = slot.state()? == SlotState::Free;
    if fault.is_none() && idle && !sight.slot.schedulable {
        let why = sight
            .blockers
            .first()
            .map(|b| format!("{} {}: {}", b.code, b.subject, b.detail));
        fault = Some((Code::SlotBlocked, why.unwrap_or_else(|| "not schedulable".to_owned())));
    }
    Ok((fault, warnings))
}

/// It is not among what was found. A proposal goes; what is in service stays, with a fault that says what is missing.
async fn gone(change: &mut Change, slot: &SlotRow, found: &Output) -> Answer<()> {
    match slot.state()? {
        SlotState::Candidate => {
            sqlx::query("delete from slot where id = $1 and state = 'candidate'")
                .bind(slot.id)
                .execute(change.conn())
                .await?;
            Ok(())
        }
        SlotState::Rejected => Ok(()),
        SlotState::Free
        | SlotState::Reserved
        | SlotState::Leased
        | SlotState::Releasing
        | SlotState::Quarantined
        | SlotState::Retired => {
            let Some(detail) = missing(slot, found) else {
                return Ok(());
            };
            note(
                change,
                slot,
                Some((Code::SlotDevicesChanged, detail)),
                json!([]),
                slot.warnings.clone(),
                None,
            )
            .await
        }
    }
}

/// What of its devices is not where it was. A tenant's disk is in use, and not proposed to anybody else.
fn missing(slot: &SlotRow, found: &Output) -> Option<String> {
    let gpu = found
        .gpu_devices
        .iter()
        .any(|gpu| gpu.pci_address.to_string() == slot.pci_address);
    let disk = found.nvme_devices.iter().any(|disk| {
        disk.serial.as_str() == slot.nvme_serial
            && disk.wwn.as_str() == slot.nvme_wwn
            && disk.size_bytes as i64 == slot.nvme_size_bytes
    });
    let fabric = slot.fabric_device.as_ref().is_none_or(|address| {
        found
            .fabric_devices
            .iter()
            .any(|fabric| fabric.pci_address.to_string() == *address)
    });
    let detail = match (gpu, disk, fabric) {
        (false, _, _) => format!("its GPU {} is not on the host", slot.pci_address),
        (_, false, _) => format!("its disk {} is not on the host", slot.nvme_device),
        (_, _, false) => {
            let address = slot.fabric_device.as_deref().unwrap_or_default();
            format!("its fabric function {address} is not on the host")
        }
        (true, true, true) if slot.lease_id.is_some() || slot.quarantine_no.is_some() => return None,
        (true, true, true) => "its devices are paired otherwise now".to_owned(),
    };
    Some(detail)
}

/// Nobody gets it until a discovery has found it as it should be.
pub(super) async fn blame(change: &mut Change, slot: &SlotRow, code: Code, why: String) -> Answer<()> {
    let (blockers, warnings) = (slot.blockers.clone(), slot.warnings.clone());
    note(change, slot, Some((code, why)), blockers, warnings, None).await
}

async fn note(
    change: &mut Change,
    slot: &SlotRow,
    fault: Option<(Code, String)>,
    blockers: serde_json::Value,
    warnings: serde_json::Value,
    gpu: Option<serde_json::Value>,
) -> Answer<()> {
    let at = OffsetDateTime::from(change.at());
    let code = fault.as_ref().map(|(code, _)| code.as_str());
    let detail = fault.as_ref().map(|(_, detail)| detail.as_str());
    sqlx::query(
        "update slot set fault_since = case when $2::text is null then null when fault = $2 then fault_since else $4 end,
             fault = $2, fault_detail = $3, blockers = $5, warnings = $6, gpu = coalesce($7, gpu),
             seen_at = case when $7::jsonb is null then seen_at else $4 end, version = version + 1
         where id = $1",
    )
    .bind(slot.id)
    .bind(code)
    .bind(detail)
    .bind(at)
    .bind(blockers)
    .bind(warnings)
    .bind(gpu)
    .execute(change.conn())
    .await?;
    if code.is_some() && slot.fault.as_deref() != code {
        change.event("slot.fault", slot.id(), json!({ "code": code, "detail": detail }));
    }
    Ok(())
}
