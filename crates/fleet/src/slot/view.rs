//! A slot as people see it: never merely "not free", always why, since when, and what to type.

use base::http::{Answer, ApiError};
use model::api::{SlotFault, SlotProofView, SlotQuarantine, SlotView, Waiting};
use model::dsse::Envelope;
use model::id::{AllocationId, TaskId};
use model::key::KeyId;
use model::signal::Code;
use model::state::SlotState;
use model::time::Timestamp;

use super::store::{ProofRow, SlotRow};
use crate::held::{self, HeldRow};
use crate::telemetry::{self, TelemetryRow};

pub(super) fn view(
    row: SlotRow,
    held: Option<&HeldRow>,
    guest: Option<&TelemetryRow>,
    now: Timestamp,
) -> Answer<SlotView> {
    let state = row.state()?;
    let signed = row.as_signed()?;
    Ok(SlotView {
        waiting: waiting(&row, state, now).or_else(|| held::waiting(held?, &row.node_name, Some(row.id()))),
        // A list from before it was free speaks of the tenant who is gone.
        held: held
            .filter(|held| state != SlotState::Free || held.at.min(held.received_at) > row.state_since)
            .and_then(|held| held::on_slot(held, row.id())),
        telemetry: guest.and_then(telemetry::view),
        id: row.id(),
        node_id: row.node(),
        state,
        state_since: row.state_since.into(),
        slot_index: signed.slot_index,
        pci_address: signed.pci_address,
        fabric_device: signed.fabric_device,
        nvme_device: signed.nvme_device,
        nvme_serial: signed.nvme_serial,
        nvme_wwn: signed.nvme_wwn,
        nvme_size_bytes: signed.nvme_size_bytes,
        numa_node: row.numa_node.and_then(|node| u32::try_from(node).ok()),
        vcpu_count: signed.vcpu_count,
        memory_mib: signed.memory_mib,
        mac_address: signed.mac_address,
        private_ip: signed.private_ip,
        gpu: row.gpu(),
        approved_gpu: row.approved_gpu(),
        approved_at: row.approved_at.map(Into::into),
        blockers: row.blockers(),
        warnings: row.warnings(),
        fault: fault(&row),
        seen_at: row.seen_at.into(),
        allocation_id: row.allocation_id.map(Into::into),
        dirty_op: row.dirty_op.map(Into::into),
        quarantine: quarantine(&row),
        wiped_at: row.wiped_at.map(Into::into),
        created_at: row.created_at.into(),
        version: row.version,
        simulated: row.simulated,
        approved_by: row.approved_by,
        state_reason: row.state_reason,
        node_name: row.node_name,
    })
}

pub(super) fn fault(row: &SlotRow) -> Option<SlotFault> {
    Some(SlotFault {
        code: row.fault.as_deref()?.parse().ok()?,
        detail: row.fault_detail.clone().unwrap_or_default(),
        since: row.fault_since?.into(),
    })
}

fn quarantine(row: &SlotRow) -> Option<SlotQuarantine> {
    Some(SlotQuarantine {
        // A code of another release is a quarantine all the same.
        code: row.quarantine_code.as_deref()?.parse().unwrap_or(Code::SlotQuarantined),
        reason: row.quarantine_reason.clone()?,
        since: row.quarantine_since?.into(),
    })
}

fn waiting(row: &SlotRow, state: SlotState, now: Timestamp) -> Option<Waiting> {
    let id = row.id();
    let since = row.state_since;
    let (reason, since, verb) = match state {
        SlotState::Candidate => match row.blockers().first() {
            Some(first) => (
                format!("{} {}: {}", first.code, first.subject, first.detail),
                since,
                first.fix.clone(),
            ),
            None => (
                "an operator has to approve it".to_owned(),
                since,
                format!("gpuaas slot approve {id}"),
            ),
        },
        SlotState::Free => {
            let fault = fault(row)?;
            let since = row.fault_since.unwrap_or(since);
            let verb = match fault.code {
                Code::SlotBlocked => row.blockers().first().map(|first| first.fix.clone()),
                Code::SlotDevicesChanged => Some(format!("gpuaas slot show {id}")),
                _ => None,
            };
            (
                fault.detail,
                since,
                verb.unwrap_or_else(|| format!("gpuaas node discover {}", row.node_name)),
            )
        }
        SlotState::Reserved if row.is_untended(now).unwrap_or(true) => (
            untended(row, "its allocation has not begun to be made"),
            row.last_task_ended_at.unwrap_or(since),
            format!("gpuaas slot unreserve {id} --reason untended"),
        ),
        SlotState::Releasing if row.is_untended(now).unwrap_or(true) => (
            untended(row, "its release has not been asked for"),
            row.last_task_ended_at.unwrap_or(since),
            format!("gpuaas slot quarantine {id} --reason untended"),
        ),
        SlotState::Reserved if row.last_task.is_none() => {
            let allocation = row.allocation_id.map(AllocationId::from);
            (
                "its allocation is about to be made".to_owned(),
                since,
                allocation.map_or_else(|| watch(row), |id| format!("gpuaas allocation show {id}")),
            )
        }
        SlotState::Reserved => ("its VM is being made".to_owned(), since, watch(row)),
        SlotState::Releasing => ("its VM is taken away and its disk wiped".to_owned(), since, watch(row)),
        SlotState::Quarantined if row.disk_gone_at.is_some() => (
            "its disk is gone for good; a discovery proposes its other devices anew".to_owned(),
            row.disk_gone_at.unwrap_or(since),
            format!("gpuaas node discover {}", row.node_name),
        ),
        SlotState::Quarantined => (
            row.quarantine_reason.clone().unwrap_or_default(),
            row.quarantine_since.unwrap_or(since),
            format!("gpuaas slot rewipe {id}"),
        ),
        SlotState::Leased | SlotState::Rejected | SlotState::Retired => return None,
    };
    Some(Waiting {
        reason,
        since: since.into(),
        verb,
    })
}

fn untended(row: &SlotRow, never: &str) -> String {
    match &row.last_task_state {
        None => never.to_owned(),
        Some(state) => {
            let code = row.last_task_code.as_deref().unwrap_or("no code");
            format!("the task about it is {state} ({code}), and there is no other")
        }
    }
}

fn watch(row: &SlotRow) -> String {
    match row.last_task.map(TaskId::from) {
        Some(task) => format!("gpuaas task show {task}"),
        None => format!("gpuaas task list --node {}", row.node_name),
    }
}

pub(super) fn proof_view(row: ProofRow) -> SlotProofView {
    SlotProofView {
        slot_id: row.slot_id.into(),
        kind: row.kind,
        subject: row.subject,
        clean: row.clean,
        task_id: row.task_id.into(),
        op_id: row.op_id.into(),
        at: row.created_at.into(),
        signed_by: row.result.as_deref().and_then(signer),
        proof: row.proof,
    }
}

/// Whose signature it was verified by when it landed; there is one.
fn signer(result: &[u8]) -> Option<KeyId> {
    let envelope = Envelope::parse(result).ok()?;
    envelope.signatures.first().map(|signature| signature.keyid)
}

/// Of a node that was never looked at, with what to do about it.
pub(super) fn undiscovered(node: &str) -> ApiError {
    ApiError::new(Code::NotFound)
        .message("nobody has looked at its devices yet")
        .hint(format!("gpuaas node discover {node}"))
}
