//! Wishes about an allocation that is there. Each is authorised, signed and numbered like the first one, and only one is
//! under way at a time.

use base::Change;
use base::http::{Answer, ApiError};
use fleet::Fleet;
use fleet::intent::{Authorised, sign};
use fleet::node::store as nodes;
use fleet::task::{Ask, Cover, enqueue, store as tasks};
use model::id::{TaskId, derive_op};
use model::intent::Wish;
use model::state::TaskState;
use model::task::Task;
use uuid::Uuid;

use super::store::AllocationRow;

/// Signs the wish and queues its task; the row is locked.
pub(super) async fn ask(
    fleet: &Fleet,
    change: &mut Change,
    row: &AllocationRow,
    wish: Wish,
    task: Task,
) -> Answer<TaskId> {
    let generation = row.generation.unsigned_abs() + 1;
    let authorised = Authorised {
        allocation: row.id(),
        project: row.project(),
        generation,
        wish,
    };
    let (_, sha256) = sign(fleet, change, &authorised).await?;
    let op = derive_op(row.id(), task.task_type().as_str(), generation);
    let ask = Ask {
        node: row.node(),
        task,
        cover: Cover::Intent { sha256, op },
    };
    let task = enqueue(fleet, change, &ask).await?;
    // A switch that has landed is written down before another takes its place.
    let power = row.power_wanted.as_deref().filter(|_| row.is_switched());
    sqlx::query(
        "update allocation set generation = $2, power_task = $3, power = coalesce($4, power), version = version + 1
         where id = $1",
    )
    .bind(row.id)
    .bind(i32::try_from(generation).map_err(ApiError::internal)?)
    .bind(task.uuid())
    .bind(power)
    .execute(change.conn())
    .await?;
    Ok(task)
}

/// The first that has not ended yet, whichever wish it is of: one whose key was revoked is issued again as another task.
/// Asked on the change's own connection: whoever holds a row and waits for another connection may wait for those that wait
/// for the row.
pub(crate) async fn under_way(change: &mut Change, row: &AllocationRow) -> Answer<Option<TaskId>> {
    Ok(open(change, row).await?.first().copied())
}

/// Before wishes that came later are withdrawn, as whoever brings a result does: the node first, then intents and tasks.
pub(super) async fn lock(change: &mut Change, row: &AllocationRow) -> Answer<()> {
    if row.generation > 1 {
        nodes::lock(change, row.node()).await?;
    }
    Ok(())
}

/// What nobody was given yet is not handed out any more: whatever it would do, the allocation is on its way out.
pub(crate) async fn call_off(change: &mut Change, row: &AllocationRow) -> Answer<()> {
    for id in open(change, row).await? {
        let task = tasks::lock(change, id).await?;
        if let Some(task) = task.filter(|task| task.state == TaskState::Queued.as_str() && task.cancel_at.is_none()) {
            fleet::task::cancel(change, &task).await?;
        }
    }
    Ok(())
}

/// Tasks of wishes that came later, as long as they have not ended. What makes the allocation and takes it away is the
/// first, and is asked about elsewhere.
async fn open(change: &mut Change, row: &AllocationRow) -> Answer<Vec<TaskId>> {
    if row.generation == 1 {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = sqlx::query_scalar(
        "select t.id from task t join intent i on i.sha256 = t.intent_sha256
         where t.node_id = $1 and t.state in ('queued', 'dispatched', 'started', 'unknown')
           and i.allocation_id = $2 and i.generation between 2 and $3 order by t.seq",
    )
    .bind(row.node_id)
    .bind(row.id)
    .bind(row.generation)
    .fetch_all(change.conn())
    .await?;
    Ok(ids.into_iter().map(TaskId::from).collect())
}
