//! Ends that no node reports: in time, by somebody's wish, or with the node.

use base::Change;
use base::http::Answer;
use base::wake::Topic;
use model::id::{NodeId, TaskId};
use model::signal::Code;
use model::state::TaskState;
use model::task::TaskType;
use model::time::Timestamp;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::slot;

/// An overdue task, as the loops find it.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Overdue {
    pub id: Uuid,
    pub node_id: Uuid,
    pub task_type: String,
}

/// Queued past its time to start.
pub async fn expired(change: &mut Change) -> sqlx::Result<Vec<Overdue>> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query_as(
        "update task set state = 'expired', code = $2, ended_at = $1, version = version + 1
         where id in (select id from task where state = 'queued' and start_by < $1 limit 500 for update skip locked)
         returning id, node_id, task_type",
    )
    .bind(at)
    .bind(Code::StartByPassed.as_str())
    .fetch_all(change.conn())
    .await
}

/// Handed out or started, and then nothing was heard: unknown, never given to anybody else.
pub async fn lease_lost(change: &mut Change) -> sqlx::Result<Vec<Overdue>> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query_as(
        "update task set state = 'unknown', version = version + 1
         where id in (select id from task where state in ('dispatched', 'started') and lease_until < $1
                      limit 500 for update skip locked)
         returning id, node_id, task_type",
    )
    .bind(at)
    .fetch_all(change.conn())
    .await
}

/// Is there anything for the loops to do? Asked without a transaction, so that an idle fleet writes nothing.
pub async fn any_overdue(pool: &PgPool, now: Timestamp) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "select exists (select from task where state = 'queued' and start_by < $1)
             or exists (select from task where state in ('dispatched', 'started') and lease_until < $1)",
    )
    .bind(OffsetDateTime::from(now))
    .fetch_one(pool)
    .await
}

/// The node is gone or has a new epoch: what was open on it ends as lost.
pub async fn lose(change: &mut Change, node: NodeId, keep_epoch: Option<u64>) -> Answer<()> {
    let at = OffsetDateTime::from(change.at());
    let lost: Vec<Overdue> = sqlx::query_as(
        "update task set state = 'failed', code = $3, detail = 'the node was removed or enrolled again', ended_at = $4,
             version = version + 1
         where id in (select id from task where node_id = $1 and ($2::bigint is null or node_epoch <> $2)
                        and state in ('queued', 'dispatched', 'started', 'unknown') order by id for update)
         returning id, node_id, task_type",
    )
    .bind(node.uuid())
    .bind(keep_epoch.map(|e| e as i64))
    .bind(Code::NodeLost.as_str())
    .bind(at)
    .fetch_all(change.conn())
    .await?;
    for task in &lost {
        ended(change, task, TaskState::Failed, Code::NodeLost);
    }
    let ids: Vec<Uuid> = lost.iter().map(|task| task.id).collect();
    slot::lost(change, node, &ids).await?;
    change.wake(Topic::Progress);
    Ok(())
}

/// Everybody hears of every end in the same words.
pub fn ended(change: &mut Change, task: &Overdue, state: TaskState, code: Code) {
    let data = serde_json::json!({
        "node_id": NodeId::from(task.node_id), "type": task.task_type, "state": state, "code": code,
    });
    change.event("task.ended", TaskId::from(task.id), data);
    wake(change, &task.task_type);
}

/// Whoever watches the task looks again, and so does the workflow that may wait for it. Nothing waits for a look at a host.
pub(super) fn wake(change: &mut Change, task_type: &str) {
    change.wake(Topic::Progress);
    if !task_type
        .parse()
        .is_ok_and(|known: TaskType| !known.spec().changes_host)
    {
        change.wake(Topic::Workflows);
    }
}
