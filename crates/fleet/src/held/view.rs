//! What a node holds as people see it: with what is not as it should be, since when, and what to type.

use model::api::{HeldDifference, NodeHeld, SlotHeld, Waiting};
use model::id::SlotId;
use model::signal::Code;

use super::judge::Difference;
use super::store::HeldRow;

pub(crate) fn node_view(row: &HeldRow, node_name: &str) -> Option<NodeHeld> {
    Some(NodeHeld {
        at: row.at.into(),
        received_at: row.received_at.into(),
        number: row.number.unsigned_abs(),
        boot_id: row.boot_id.clone(),
        holds: row.holds()?,
        differences: differences(row, node_name).collect(),
    })
}

fn differences<'a>(row: &HeldRow, node_name: &'a str) -> impl Iterator<Item = HeldDifference> + use<'a> {
    let confirmed = row.differences().into_iter().filter(|found| found.confirmed);
    // A code of another release is not ours to explain.
    confirmed.filter_map(move |found| {
        Some(HeldDifference {
            code: found.code.parse().ok()?,
            verb: verb(&found, node_name),
            allocation_id: found.allocation,
            slot_id: found.slot,
            detail: found.detail,
            since: found.since,
        })
    })
}

fn verb(found: &Difference, node_name: &str) -> String {
    match found.slot {
        _ if found.code == Code::VmDown.as_str() => format!("gpuaas node discover {node_name}"),
        _ if [Code::VmLost, Code::AccountLost]
            .iter()
            .any(|code| found.code == code.as_str()) =>
        {
            format!(
                "gpuaas allocation force-release {} --reason {}",
                found.allocation, found.code
            )
        }
        Some(slot) => format!("gpuaas slot quarantine {slot} --reason {}", found.code),
        None => format!("gpuaas node drain {node_name} --reason {}", found.code),
    }
}

pub(crate) fn on_slot(row: &HeldRow, slot: SlotId) -> Option<SlotHeld> {
    let holds = row.holds()?;
    let held = holds.slices.into_iter().find(|held| held.slots.contains(&slot))?;
    Some(SlotHeld {
        at: row.at.into(),
        allocation_id: held.allocation_id,
        op_id: held.op_id,
        vm_name: held.vm_name,
        power: held.power,
        since: held.since,
    })
}

/// The first difference about a slot, or about anything of a node.
pub(crate) fn waiting(row: &HeldRow, node_name: &str, slot: Option<SlotId>) -> Option<Waiting> {
    let mut all = differences(row, node_name);
    let found = all.find(|found| slot.is_none() || found.slot_id == slot)?;
    Some(Waiting {
        reason: format!("{}: {}", found.code, found.detail),
        since: found.since,
        verb: found.verb,
    })
}
