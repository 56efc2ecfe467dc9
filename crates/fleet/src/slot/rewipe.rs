//! A quarantined slot is wiped again: the release of what it belonged to, once more, under an intent of its own. Asking
//! twice is asking once.

use base::Change;
use base::http::{Answer, ApiError};
use model::id::{AllocationId, ProjectId, TaskId, derive_op};
use model::intent::Wish;
use model::signal::Code;
use model::state::SlotState;
use model::task::{Task, TaskType, vm_release};
use model::value::{Name, Nonce};
use uuid::Uuid;

use super::approve::conflict;
use super::store::{self, SlotRow};
use crate::Fleet;
use crate::intent::{Authorised, opened, sign};
use crate::task::{Ask, Cover, enqueue};

pub(super) async fn rewipe(fleet: &Fleet, change: &mut Change, slot: &SlotRow) -> Answer<TaskId> {
    if slot.state()? != SlotState::Quarantined {
        return Err(conflict(slot, "only what is quarantined is wiped again"));
    }
    if slot.disk_gone_at.is_some() {
        let what = format!("the disk of {} was given up; it is never used again", slot.id().short());
        let hint = format!("gpuaas node discover {} proposes its other devices", slot.node_name);
        return Err(ApiError::new(Code::StateConflict).message(what).hint(hint));
    }
    if let Some(open) = under_way(change, slot).await? {
        return Ok(open.into());
    }
    let last = last_tenant(fleet, change, slot).await?;
    let slots: Vec<_> = last.slots.iter().map(SlotRow::as_signed).collect::<Answer<_>>()?;
    let authorised = Authorised {
        allocation: last.allocation,
        project: last.project,
        generation: last.generation + 1,
        wish: Wish::Wipe {
            node_id: slot.node(),
            vm_name: last.vm_name.clone(),
            slots: slots.clone(),
        },
    };
    let (_, sha256) = sign(fleet, change, &authorised).await?;
    let op = derive_op(last.allocation, TaskType::VmRelease.as_str(), authorised.generation);
    let task = Task::VmRelease(vm_release::Params {
        allocation_id: last.allocation,
        vm_name: last.vm_name,
        slots,
        graceful_timeout_seconds: 30,
        wipe: true,
        release_nonce: Nonce::fresh(),
    });
    let cover = Cover::Intent { sha256, op };
    enqueue(
        fleet,
        change,
        &Ask {
            node: slot.node(),
            task,
            cover,
        },
    )
    .await
}

async fn under_way(change: &mut Change, slot: &SlotRow) -> sqlx::Result<Option<Uuid>> {
    sqlx::query_scalar(
        "select id from task where node_id = $1 and $2 = any(slots) and task_type = $3
           and state in ('queued', 'dispatched', 'started', 'unknown') order by seq desc limit 1",
    )
    .bind(slot.node_id)
    .bind(slot.id)
    .bind(TaskType::VmRelease.as_str())
    .fetch_optional(change.conn())
    .await
}

/// Whom the slot belonged to last, and what else of theirs is still in quarantine: the host's own lease is theirs.
struct LastTenant {
    allocation: AllocationId,
    project: ProjectId,
    generation: u32,
    vm_name: Name,
    slots: Vec<SlotRow>,
}

/// The latest task that was signed for a slot, with its wish.
#[derive(sqlx::FromRow)]
struct Signed {
    allocation_id: Uuid,
    generation: i32,
    envelope: Vec<u8>,
    wish: Vec<u8>,
}

async fn last_tenant(fleet: &Fleet, change: &mut Change, slot: &SlotRow) -> Answer<LastTenant> {
    // By what a task was signed for: a wipe of a slot that no tenant ever had counts too.
    let last: Option<Signed> = sqlx::query_as(
        "select i.allocation_id, (select max(generation) from intent g where g.allocation_id = i.allocation_id) as generation,
                i.envelope, i.wish
         from task t join intent i on i.sha256 = t.intent_sha256
         where t.node_id = $1 and $2 = any(t.slots) order by t.created_at desc, t.id desc limit 1",
    )
    .bind(slot.node_id)
    .bind(slot.id)
    .fetch_optional(change.conn())
    .await?;
    let Some(last) = last else {
        let short = slot.id().short().replace('_', "-");
        return Ok(LastTenant {
            allocation: AllocationId::new(),
            project: ProjectId::from(Uuid::nil()),
            generation: 0,
            vm_name: format!("wipe-{short}").parse().map_err(ApiError::internal)?,
            slots: vec![slot.clone()],
        });
    };
    // Signed anew for its last tenant: whom and which slots only a signature says, not the rows.
    let (intent, _) = opened(fleet, &last.envelope)?;
    let (vm_name, signed) = match intent.wish(&last.wish)? {
        Wish::Slice { params, .. } => (params.vm_name, params.slots),
        Wish::Wipe { vm_name, slots, .. } => (vm_name, slots),
        Wish::Machine { .. } | Wish::Power { .. } => return Err(Code::IntentInvalid.into()),
    };
    let signed: Vec<Uuid> = signed.iter().map(|slot| slot.slot_id.uuid()).collect();
    if intent.allocation_id.uuid() != last.allocation_id || !signed.contains(&slot.id) {
        return Err(Code::IntentInvalid.into());
    }
    let mut slots = store::these(change.conn(), slot.node(), &signed).await?;
    slots.retain(|other| other.state == SlotState::Quarantined.as_str() && other.disk_gone_at.is_none());
    Ok(LastTenant {
        allocation: intent.allocation_id,
        project: intent.project_id,
        generation: last.generation as u32,
        vm_name,
        slots,
    })
}
