//! A task that somebody wants stopped.

use base::Change;
use base::http::{Answer, ApiError};
use base::wake::Topic;
use model::signal::Code;
use model::state::TaskState;
use model::task::TaskType;
use time::OffsetDateTime;

use super::ends::{Overdue, ended};
use super::store::TaskRow;

/// Somebody wants it stopped. Queued ends at once; what a node has is asked for with the next answer. What takes
/// a tenant's things away is never stopped: it would leave them for the next one.
pub async fn cancel(change: &mut Change, row: &TaskRow) -> Answer<()> {
    let takes_away = row.task_type.parse::<TaskType>().is_ok_and(TaskType::takes_away);
    if takes_away {
        return Err(ApiError::new(Code::StateConflict)
            .message("a task that takes a tenant's things away is not cancelled")
            .hint(format!("gpuaas task show {} --wait", row.id().short())));
    }
    let at = OffsetDateTime::from(change.at());
    match row.state()? {
        TaskState::Queued => {
            sqlx::query(
                "update task set state = 'cancelled', code = $2, ended_at = $3, version = version + 1 where id = $1",
            )
            .bind(row.id)
            .bind(Code::TaskCancelled.as_str())
            .bind(at)
            .execute(change.conn())
            .await?;
            let task = Overdue {
                id: row.id,
                node_id: row.node_id,
                task_type: row.task_type.clone(),
            };
            ended(change, &task, TaskState::Cancelled, Code::TaskCancelled);
        }
        TaskState::Dispatched | TaskState::Started | TaskState::Unknown => {
            sqlx::query("update task set cancel_at = coalesce(cancel_at, $2), version = version + 1 where id = $1")
                .bind(row.id)
                .bind(at)
                .execute(change.conn())
                .await?;
            change.event("task.cancel_requested", row.id(), serde_json::json!({}));
            change.call(row.node_id.into());
        }
        end @ (TaskState::Succeeded | TaskState::Failed | TaskState::Expired | TaskState::Cancelled) => {
            return Err(ApiError::new(Code::StateConflict)
                .message(format!("the task has already {end}"))
                .hint(format!("gpuaas task show {}", row.id().short())));
        }
    }
    change.wake(Topic::Progress);
    Ok(())
}
