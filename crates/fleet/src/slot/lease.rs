//! Who gets which slots. All slots of one lease are on one node; a slot with a fault, of a node that is not ready or in
//! the other mode, is nobody's. That no slot has two leases is the database's promise, not ours.

use base::Change;
use base::http::{Answer, ApiError};
use model::id::{AllocationId, NodeId};
use model::signal::Code;
use model::state::{NodeMode, NodeState, SlotState};
use serde_json::json;
use uuid::Uuid;

use super::state;
use super::store::{self, SlotRow};
use crate::node::{self, NodeRow};

/// How many slots, and what each of them has to have at least.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    pub count: u32,
    pub gpu_model: &'a str,
    pub vcpu: i64,
    pub memory_mib: i64,
    pub nvme_gib: i64,
    pub fabric: bool,
}

/// How often the fleet is looked through: others may take all that was found before we get there.
pub(crate) const LOOKS: usize = 5;

/// Nodes with enough slots that would do, those with the fewest of that GPU to spare first, so that large wishes still find
/// theirs. The counts of `node_room` lead to them. Whether a node gives out anything is asked before its slots are looked
/// at: `case` keeps that order, a join would not.
pub const CANDIDATES: &str = "
    select r.node_id from node_room r
    where r.gpu_model = lower($1) and r.free > 0 and r.free >= $6 and r.node_id <> all($7)
      and case when (select n.state = 'ready' and n.mode = 'slice' from node n where n.id = r.node_id)
               then (select count(*) from slot s where s.node_id = r.node_id and s.state = 'free' and s.fault is null
                       and slot_fits(s, $1, $2, $3, $4, $5)) >= $6
               else false end
    order by r.free, r.node_id limit 20";

/// Reserves slots of one node for an allocation, on the node with the fewest to spare that has enough.
pub async fn reserve(change: &mut Change, allocation: AllocationId, wanted: &Wanted<'_>) -> Answer<Vec<SlotRow>> {
    may_find_nothing(change).await?;
    // Nobody waits twice for the same node: where many want little, they would only wait for each other.
    let mut tried = Vec::new();
    for _ in 0..LOOKS {
        let nodes = candidates(change, wanted, &tried).await?;
        if nodes.is_empty() {
            break;
        }
        tried.extend_from_slice(&nodes);
        if let Some(slots) = reserve_among(change, allocation, nodes, wanted).await? {
            return Ok(slots);
        }
    }
    let what = format!("no ready node has {} free slots that fit", wanted.count);
    Err(ApiError::new(Code::SlotUnavailable).message(what))
}

async fn candidates(change: &mut Change, wanted: &Wanted<'_>, but: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar(CANDIDATES)
        .bind(wanted.gpu_model)
        .bind(wanted.vcpu)
        .bind(wanted.memory_mib)
        .bind(wanted.nvme_gib)
        .bind(wanted.fabric)
        .bind(i64::from(wanted.count))
        .bind(but)
        .fetch_all(change.conn())
        .await
}

/// A node that somebody else is busy with is waited for only when there is no other: whoever asks at the same time finds
/// the same first node.
async fn reserve_among(
    change: &mut Change,
    allocation: AllocationId,
    mut nodes: Vec<Uuid>,
    wanted: &Wanted<'_>,
) -> Answer<Option<Vec<SlotRow>>> {
    while let Some(row) = node::store::lock_first(change, &nodes).await? {
        if let Some(slots) = reserve_of(change, allocation, &row, wanted).await? {
            return Ok(Some(slots));
        }
        nodes.retain(|id| *id != row.id().uuid());
        let_go(change).await?;
    }
    for id in nodes.into_iter().map(NodeId::from) {
        if let Some(row) = node::store::lock(change, id).await?
            && let Some(slots) = reserve_of(change, allocation, &row, wanted).await?
        {
            return Ok(Some(slots));
        }
        let_go(change).await?;
    }
    Ok(None)
}

/// To here `let_go` goes back.
pub(crate) async fn may_find_nothing(change: &mut Change) -> sqlx::Result<()> {
    let marked = sqlx::query("savepoint nothing_found").execute(change.conn());
    marked.await.map(drop)
}

/// A node that has nothing for us is not held while we wait for another: somebody who has that one may want this.
pub(crate) async fn let_go(change: &mut Change) -> sqlx::Result<()> {
    let undone = sqlx::query("rollback to savepoint nothing_found").execute(change.conn());
    undone.await.map(drop)
}

/// Of a node that is locked; none if it has fewer by now, or gives out nothing any more.
async fn reserve_of(
    change: &mut Change,
    allocation: AllocationId,
    row: &NodeRow,
    wanted: &Wanted<'_>,
) -> Answer<Option<Vec<SlotRow>>> {
    if row.state()? != NodeState::Ready || row.mode != NodeMode::Slice.as_str() {
        return Ok(None);
    }
    let slots = store::fitting(change.conn(), row.id(), wanted).await?;
    let count = wanted.count as usize;
    if count == 0 || slots.len() < count {
        return Ok(None);
    }
    for slot in &slots {
        change
            .also("slot.reserve", slot.id())
            .detail(json!({ "allocation": allocation }));
        state::reserve(change, slot, allocation).await?;
    }
    Ok(Some(slots))
}

/// What an allocation still holds, with its node.
pub async fn held(change: &mut Change, allocation: AllocationId) -> Answer<Vec<SlotRow>> {
    let nodes: Vec<Uuid> = sqlx::query_scalar(
        "select distinct node_id from lease where allocation_id = $1 and ended_at is null and slot_id is not null",
    )
    .bind(allocation.uuid())
    .fetch_all(change.conn())
    .await?;
    let mut held = Vec::new();
    for node in nodes {
        let slots = store::of_node(&mut *change.conn(), node.into()).await?;
        held.extend(
            slots
                .into_iter()
                .filter(|slot| slot.allocation_id == Some(allocation.uuid())),
        );
    }
    Ok(held)
}

/// Was a node given a task about any of its slots?
pub async fn any_given(change: &mut Change, allocation: AllocationId) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "select exists (select from lease l join slot s on s.id = l.slot_id
                        where l.allocation_id = $1 and l.ended_at is null and s.state <> 'reserved')",
    )
    .bind(allocation.uuid())
    .fetch_one(change.conn())
    .await
}

/// Takes everything from an allocation at once. What a node was never given a task for is free; everything else is
/// quarantined until it is wiped with proof.
pub async fn abandon(change: &mut Change, allocation: AllocationId, reason: &str) -> Answer<()> {
    unreserve(change, allocation).await?;
    let held = held(change, allocation).await?;
    if let Some(node) = held.first().map(SlotRow::node) {
        node::store::lock(change, node).await?.ok_or(Code::NotFound)?;
    }
    for slot in held {
        change
            .also("slot.quarantine", slot.id())
            .detail(json!({ "code": Code::WipeUnproved, "reason": reason }));
        state::quarantine(change, &slot, Code::WipeUnproved, reason).await?;
    }
    Ok(())
}

/// Gives back what was promised and never begun. A slot that a node was given a task for is not among them.
pub async fn unreserve(change: &mut Change, allocation: AllocationId) -> Answer<Vec<SlotRow>> {
    let nodes: Vec<Uuid> = sqlx::query_scalar(
        "select distinct node_id from lease where allocation_id = $1 and ended_at is null and slot_id is not null",
    )
    .bind(allocation.uuid())
    .fetch_all(change.conn())
    .await?;
    let mut given_back = Vec::new();
    for node in nodes.into_iter().map(NodeId::from) {
        let row = node::store::lock(change, node).await?.ok_or(Code::NotFound)?;
        let slots = store::of_node(&mut *change.conn(), node).await?;
        for slot in slots {
            let theirs = slot.allocation_id == Some(allocation.uuid());
            if !theirs || slot.state()? != SlotState::Reserved || is_queued(change, &slot).await? {
                continue;
            }
            state::end_lease(change, &slot, "nothing was begun").await?;
            change
                .also("slot.unreserve", slot.id())
                .detail(json!({ "allocation": allocation }));
            state::enter(change, &slot, SlotState::Free, "nothing was begun").await?;
            given_back.push(slot);
        }
        node::state::emptied(change, &row).await?;
    }
    Ok(given_back)
}

/// Is there a task for it that a node may still be given?
async fn is_queued(change: &mut Change, slot: &SlotRow) -> sqlx::Result<bool> {
    sqlx::query_scalar("select exists (select from task where node_id = $1 and state = 'queued' and $2 = any(slots))")
        .bind(slot.node_id)
        .bind(slot.id)
        .fetch_one(change.conn())
        .await
}

/// Slots of this node that somebody has.
pub(crate) async fn open_on(change: &mut Change, node: NodeId) -> sqlx::Result<i64> {
    sqlx::query_scalar("select count(*) from lease where node_id = $1 and ended_at is null")
        .bind(node.uuid())
        .fetch_one(change.conn())
        .await
}
