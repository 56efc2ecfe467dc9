//! The moves of a slot that are more than a column. Every one tells of itself, and each is legal only because the
//! database finds it so too.

use base::Change;
use base::http::Answer;
use model::id::{AllocationId, OpId};
use model::signal::Code;
use model::state::SlotState;
use serde_json::json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::SlotRow;

/// Writes the state and tells of it. What pins the slot has to be ended or made in the same change.
pub(super) async fn enter(change: &mut Change, slot: &SlotRow, to: SlotState, reason: &str) -> Answer<()> {
    let at = OffsetDateTime::from(change.at());
    let held = matches!(to, SlotState::Reserved | SlotState::Leased | SlotState::Releasing);
    sqlx::query(
        "update slot set state = $2, state_since = $3, state_reason = $4,
             lease_id = case when $5 then lease_id end,
             dirty_op = case when $6 then dirty_op end,
             quarantine_no = case when $2 = 'quarantined' then quarantine_no end,
             version = version + 1
         where id = $1",
    )
    .bind(slot.id)
    .bind(to.as_str())
    .bind(at)
    .bind(reason)
    .bind(held)
    .bind(matches!(
        to,
        SlotState::Leased | SlotState::Releasing | SlotState::Quarantined
    ))
    .execute(change.conn())
    .await?;
    tell(change, slot, to, reason);
    Ok(())
}

fn tell(change: &mut Change, slot: &SlotRow, to: SlotState, reason: &str) {
    change.event(
        "slot.state",
        slot.id(),
        json!({ "node_id": slot.node(), "from": slot.state, "to": to, "reason": reason, "simulated": slot.simulated }),
    );
}

/// Promised to an allocation: the lease and the state at once, since one is not without the other.
pub(super) async fn reserve(change: &mut Change, slot: &SlotRow, allocation: AllocationId) -> Answer<()> {
    let (at, reason) = (OffsetDateTime::from(change.at()), "reserved for an allocation");
    sqlx::query(
        "with made as (insert into lease (id, node_id, slot_id, allocation_id, since) values ($1, $2, $3, $4, $5))
         update slot set lease_id = $1, state = 'reserved', state_since = $5, state_reason = $6, version = version + 1
         where id = $3",
    )
    .bind(Uuid::now_v7())
    .bind(slot.node_id)
    .bind(slot.id)
    .bind(allocation.uuid())
    .bind(at)
    .bind(reason)
    .execute(change.conn())
    .await?;
    tell(change, slot, SlotState::Reserved, reason);
    Ok(())
}

/// Given to nobody from now on. A lease of it ends: whatever is still on it, it is no tenant's any more.
pub(super) async fn quarantine(change: &mut Change, slot: &SlotRow, code: Code, reason: &str) -> Answer<()> {
    if slot.state()? == SlotState::Quarantined {
        return Ok(());
    }
    let at = OffsetDateTime::from(change.at());
    end_lease(change, slot, reason).await?;
    sqlx::query(
        "with made as (insert into slot_quarantine (slot_id, code, reason, since) values ($1, $2, $3, $4) returning no)
         update slot set quarantine_no = made.no, state = 'quarantined', lease_id = null from made where id = $1",
    )
    .bind(slot.id)
    .bind(code.as_str())
    .bind(reason)
    .bind(at)
    .execute(change.conn())
    .await?;
    enter(change, slot, SlotState::Quarantined, reason).await
}

/// The proof that ends what pins a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clears {
    pub no: i64,
    pub kind: &'static str,
    pub op: OpId,
}

/// Clean, by this proof: nobody's, and free for the next.
pub(super) async fn free(change: &mut Change, slot: &SlotRow, by: Clears, reason: &str) -> Answer<()> {
    let at = OffsetDateTime::from(change.at());
    end_lease(change, slot, reason).await?;
    sqlx::query(
        "update slot_dirt set ended_by = $2, ended_kind = $3, ended_op = $4, ended_at = $5 where slot_id = $1 and ended_by is null",
    )
    .bind(slot.id)
    .bind(by.no)
    .bind(by.kind)
    .bind(by.op.uuid())
    .bind(at)
    .execute(change.conn())
    .await?;
    sqlx::query("update slot_quarantine set ended_by = $2, ended_at = $3 where slot_id = $1 and ended_by is null")
        .bind(slot.id)
        .bind(by.no)
        .bind(at)
        .execute(change.conn())
        .await?;
    change
        .also("slot.free", slot.id())
        .detail(json!({ "proof": by.no, "kind": by.kind, "op": by.op }));
    enter(change, slot, SlotState::Free, reason).await
}

pub(super) async fn end_lease(change: &mut Change, slot: &SlotRow, reason: &str) -> Answer<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query("update lease set ended_at = $2, end_reason = $3 where slot_id = $1 and ended_at is null")
        .bind(slot.id)
        .bind(at)
        .bind(reason)
        .execute(change.conn())
        .await?;
    Ok(())
}
