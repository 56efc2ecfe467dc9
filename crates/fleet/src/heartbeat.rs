//! Heartbeats: what a node says it holds keeps its lease, and the first word that a task started makes it started.

use base::http::Answer;
use base::tx::Actor;
use model::id::SessionId;
use model::node_api::{HeartbeatAnswer, HeartbeatRequest, HeldTask};
use model::signal::Code;
use serde_json::json;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::Fleet;
use crate::identity::NodeCaller;
use crate::task::store as tasks;

const HELD_MOST: usize = 512;

pub async fn beat(
    fleet: &Fleet,
    caller: &NodeCaller,
    actor: &Actor,
    session: SessionId,
    request: &HeartbeatRequest,
) -> Answer<HeartbeatAnswer> {
    if request.tasks.len() > HELD_MOST {
        return Err(Code::FieldInvalid.into());
    }
    if !request.tasks.is_empty() {
        for (id, from) in name(fleet, caller, session, &request.tasks).await? {
            // Only the first time: from then on it only keeps its lease.
            if from != "started" {
                note_started(fleet, actor, id).await?;
            }
        }
    }
    Ok(HeartbeatAnswer {
        cancel: tasks::to_cancel(fleet.app.db.read(), caller.node_id).await?,
    })
}

/// Renews the leases of what is named, under the fence it was given; returns what has just started.
async fn name(
    fleet: &Fleet,
    caller: &NodeCaller,
    session: SessionId,
    held: &[HeldTask],
) -> Answer<Vec<(Uuid, String)>> {
    let now = fleet.app.clock.now();
    let ids: Vec<Uuid> = held.iter().map(|t| t.task_id.uuid()).collect();
    let fences: Vec<i64> = held.iter().map(|t| t.fence as i64).collect();
    let phases: Vec<String> = held.iter().map(|t| t.phase.chars().take(64).collect()).collect();
    let started: Vec<Option<OffsetDateTime>> = held.iter().map(|t| t.started_at.map(Into::into)).collect();
    let rows: Vec<(Uuid, String, bool, bool)> = sqlx::query_as(
        "with named as (
             select task.id, task.state as was, task.version as had, held.phase, held.started_at
             from task join unnest($1::uuid[], $2::bigint[], $3::text[], $4::timestamptz[]) as held (id, fence, phase, started_at)
               on task.id = held.id and task.fence = held.fence
             where task.node_id = $5 and task.node_epoch = $6 and task.state in ('dispatched', 'started', 'unknown')
             order by task.id for update of task)
         update task set lease_until = $7, named_by = $8, phase = named.phase,
             started_at = coalesce(task.started_at, named.started_at),
             state = case when named.started_at is not null then 'started' when task.state = 'unknown' and task.started_at is not null then 'started' else task.state end,
             version = task.version + case when task.phase is distinct from named.phase or task.state <> 'started' then 1 else 0 end
         from named where task.id = named.id
         returning task.id, named.was, task.state = 'started', task.version > named.had",
    )
    .bind(ids)
    .bind(fences)
    .bind(phases)
    .bind(started)
    .bind(caller.node_id.uuid())
    .bind(caller.epoch as i64)
    .bind(OffsetDateTime::from(now.plus_s(fleet.limits.lease_s)))
    .bind(session.uuid())
    .fetch_all(fleet.app.db.bookkeeping())
    .await?;
    // A beat that only keeps a lease is nobody's news.
    if rows.iter().any(|(_, _, _, changed)| *changed) {
        fleet.app.wake.raise(base::wake::Topic::Tasks);
    }
    Ok(rows
        .into_iter()
        .filter(|(_, _, started, _)| *started)
        .map(|(id, was, ..)| (id, was))
        .collect())
}

async fn note_started(fleet: &Fleet, actor: &Actor, id: Uuid) -> Answer<()> {
    let id = model::id::TaskId::from(id);
    let mut change = fleet.app.db.change(actor, "task.start", id).await?;
    change.event("task.started", id, json!({}));
    change.commit().await?;
    Ok(())
}
