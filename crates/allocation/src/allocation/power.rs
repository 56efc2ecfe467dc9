//! A slice is switched on, off, or off and on: each time a wish of its own, signed as one. A slice that is off keeps its
//! slots and is charged.

use base::Change;
use base::auth::Principal;
use base::http::{Answer, ApiError};
use base::wake::Topic;
use fleet::Fleet;
use model::api::SkuKind;
use model::id::{AllocationId, TaskId};
use model::intent::Wish;
use model::signal::Code;
use model::state::AllocationState;
use model::task::Task;
use model::task::vm_power::{self, Action};
use model::value::Name;
use serde_json::json;

use super::later;
use super::refused::refused;
use super::store;
use super::verbs::seen;

/// Asks for it. Whoever wants what is under way hears of that one; whoever wants something else comes later.
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
        return Err(refused(
            &row,
            format!("the {} is {}, not an active slice", row.kind, row.state),
        ));
    }
    let power = match action {
        Action::Reboot | Action::Start => "running",
        Action::Stop => "off",
    };
    if let Some(open) = later::under_way(&mut change, &row).await? {
        if wished(&mut change, open)
            .await?
            .is_some_and(|first| serves(first, action))
        {
            // An answer like the first one's: under a key of its own it is kept like that.
            change.detail(json!({ "shared": open }));
            change.commit().await?;
            return Ok(open);
        }
        let what = format!("the slice is being switched, see {open}; ask again when that has ended");
        let hint = format!(
            "ask again in a moment; `gpuaas allocation show {}` has its power",
            id.short()
        );
        return Err(ApiError::new(Code::StateConflict).message(what).hint(hint));
    }
    let params = vm_power::Params {
        allocation_id: id,
        vm_name: vm_name(id)?,
        action,
        graceful_timeout_seconds: 120,
    };
    let wish = Wish::Power {
        node_id: row.node(),
        params: params.clone(),
    };
    let task = later::ask(fleet, &mut change, &row, wish, Task::VmPower(params)).await?;
    sqlx::query("update allocation set power_wanted = $2, version = version + 1 where id = $1")
        .bind(row.id)
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

/// What the task was signed for; where a slice ends up says less, because a start and a reboot both leave it running.
async fn wished(change: &mut Change, task: TaskId) -> Answer<Option<Action>> {
    let wish: Option<Vec<u8>> =
        sqlx::query_scalar("select i.wish from task t join intent i on i.sha256 = t.intent_sha256 where t.id = $1")
            .bind(task.uuid())
            .fetch_optional(change.conn())
            .await?;
    let wish = wish.map(|bytes| serde_json::from_slice(&bytes)).transpose();
    Ok(match wish.map_err(ApiError::internal)? {
        Some(Wish::Power { params, .. }) => Some(params.action),
        Some(Wish::Machine { .. } | Wish::Slice { .. } | Wish::Wipe { .. }) | None => None,
    })
}

/// Does whoever wants `action` get it from what was asked for first? A slice that is being rebooted is started by that.
fn serves(first: Action, action: Action) -> bool {
    match action {
        Action::Reboot => first == Action::Reboot,
        Action::Stop => first == Action::Stop,
        Action::Start => matches!(first, Action::Start | Action::Reboot),
    }
}

pub(crate) fn vm_name(id: AllocationId) -> Answer<Name> {
    let text = id.to_string();
    let tail = text.rsplit_once('_').map_or(text.as_str(), |(_, tail)| tail);
    format!("vm-{tail}").parse().map_err(ApiError::internal)
}
