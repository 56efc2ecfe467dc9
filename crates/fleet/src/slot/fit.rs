//! Is a node as it was approved? A node that comes back is asked this before anybody gets anything of it.

use base::Change;
use base::http::Answer;
use model::api::{SlotDifference, SlotFault};
use model::id::NodeId;
use model::time::Timestamp;
use time::OffsetDateTime;

use super::store::{self, SlotRow};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Nothing was approved, or a discovery since then found all of it.
    Yes,
    /// A discovery has to look first.
    Unseen,
    /// In words, what differs.
    Differs(String),
}

/// As of a discovery that is not older than `since`.
pub(crate) async fn fit(change: &mut Change, node: NodeId, since: Timestamp) -> Answer<Fit> {
    let slots = store::of_node(&mut *change.conn(), node).await?;
    let mut in_service = Vec::new();
    for slot in slots {
        if slot.counts()? {
            in_service.push(slot);
        }
    }
    if in_service.is_empty() {
        return Ok(Fit::Yes);
    }
    let looked: Option<OffsetDateTime> = sqlx::query_scalar("select topology_at from node where id = $1")
        .bind(node.uuid())
        .fetch_one(change.conn())
        .await?;
    if looked.is_none_or(|at| at < OffsetDateTime::from(since)) {
        return Ok(Fit::Unseen);
    }
    let differences = differences(&in_service);
    let Some(first) = differences.first() else {
        return Ok(Fit::Yes);
    };
    let others = match differences.len() {
        1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    let SlotFault { detail, .. } = &first.fault;
    Ok(Fit::Differs(format!("slot {}: {detail}{others}", first.slot_index)))
}

/// What was not found as it was approved.
pub(crate) fn differences(slots: &[SlotRow]) -> Vec<SlotDifference> {
    let differs = |slot: &SlotRow| {
        Some(SlotDifference {
            slot_id: slot.id(),
            slot_index: slot.slot_index as u32,
            fault: super::view::fault(slot)?,
        })
    };
    slots.iter().filter_map(differs).collect()
}
