//! A slice is switched on, off, or off and on: each time a wish of its own, signed as one. A slice that is off keeps its
//! slots and is charged.

use base::auth::Principal;
use base::http::{Answer, ApiError};
use base::wake::Topic;
use fleet::Fleet;
use fleet::intent::{Authorised, sign};
use fleet::task::{Ask, Cover, enqueue, store as tasks};
use model::api::SkuKind;
use model::id::{AllocationId, TaskId, derive_op};
use model::intent::Wish;
use model::signal::Code;
use model::state::AllocationState;
use model::task::vm_power::{self, Action};
use model::task::{Task, TaskType};
use model::value::Name;
use serde_json::json;

use super::store::{self, AllocationRow};
use super::verbs::seen;

/// Asks for it. Whoever wants the same while it is under way hears of that one; whoever wants the opposite comes later.
pub(super) async fn switch(fleet: &Fleet, principal: &Principal, id: AllocationId, action: Action) -> Answer<TaskId> {
    let (row, seat) = seen(fleet, principal, id).await?;
    seat.may_change(row.creator())?;
    let word = match action {
        Action::Reboot => "allocation.reboot",
        Action::Stop => "allocation.stop",
        Action::Start => "allocation.start",
    };
    let mut change = fleet.app.db.change(&principal.actor(), word, id).await?;
    let row = store::lock(&mut change, id).await?;
    if row.state()? != AllocationState::Active || row.kind != SkuKind::Slice.as_str() {
        return Err(ApiError::new(Code::StateConflict)
            .message(format!("the {} is {}, not an active slice", row.kind, row.state)));
    }
    let power = match action {
        Action::Reboot | Action::Start => "running",
        Action::Stop => "off",
    };
    if let Some(open) = under_way(fleet, &row).await? {
        if row.power_wanted.as_deref() == Some(power) {
            return Ok(open);
        }
        let what = format!("the slice is being switched, see {open}; ask again when that has ended");
        return Err(ApiError::new(Code::StateConflict).message(what));
    }
    let params = vm_power::Params {
        allocation_id: id,
        vm_name: vm_name(id)?,
        action,
        graceful_timeout_seconds: 120,
    };
    let generation = row.generation.unsigned_abs() + 1;
    let authorised = Authorised {
        allocation: id,
        project: row.project(),
        generation,
        wish: Wish::Power {
            node_id: row.node(),
            params: params.clone(),
        },
    };
    let (_, sha256) = sign(fleet, &mut change, &authorised).await?;
    let op = derive_op(id, TaskType::VmPower.as_str(), generation);
    let ask = Ask {
        node: row.node(),
        task: Task::VmPower(params),
        cover: Cover::Intent { sha256, op },
    };
    let task = enqueue(fleet, &mut change, &ask).await?;
    sqlx::query(
        "update allocation set generation = $2, power_task = $3, power_wanted = $4, version = version + 1 where id = $1",
    )
    .bind(row.id)
    .bind(i32::try_from(generation).map_err(ApiError::internal)?)
    .bind(task.uuid())
    .bind(power)
    .execute(change.conn())
    .await?;
    change.event(
        "provisioning.power",
        id,
        json!({ "project_id": row.project(), "action": action, "task_id": task }),
    );
    change.wake(Topic::Progress);
    change.commit().await?;
    Ok(task)
}

/// The power task that has not ended yet.
async fn under_way(fleet: &Fleet, row: &AllocationRow) -> Answer<Option<TaskId>> {
    let Some(id) = row.power_task.map(TaskId::from) else {
        return Ok(None);
    };
    let task = tasks::get(fleet.app.db.bookkeeping(), id).await?;
    match task {
        Some(task) if !task.state()?.is_end() => Ok(Some(id)),
        _ => Ok(None),
    }
}

pub(crate) fn vm_name(id: AllocationId) -> Answer<Name> {
    let text = id.to_string();
    let tail = text.rsplit_once('_').map_or(text.as_str(), |(_, tail)| tail);
    format!("vm-{tail}").parse().map_err(ApiError::internal)
}
