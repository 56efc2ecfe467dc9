//! Heartbeats: what a node says it holds keeps its lease, and the first word that a task started makes it started.

use base::http::Answer;
use base::tx::Actor;
use base::wake::Topic;
use model::id::{SessionId, TaskId};
use model::node_api::{HeartbeatAnswer, HeartbeatRequest, HeldTask, Progress};
use model::signal::Code;
use serde_json::json;
use sqlx::PgConnection;
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
    fleet.presence.told(caller.node_id, request, fleet.app.clock.now());
    // Who has nothing has nothing to stop either: such a beat is written down with many others and asks for nothing.
    if request.tasks.is_empty() {
        return Ok(HeartbeatAnswer { cancel: Vec::new() });
    }
    keep(fleet, caller, actor, session, &request.tasks).await?;
    Ok(HeartbeatAnswer {
        cancel: tasks::to_cancel(fleet.app.db.read(), caller.node_id).await?,
    })
}

/// Keeps the leases of what is named. That a task has started is a decision, with its event and audit row in the same
/// transaction; that it goes on is not.
async fn keep(fleet: &Fleet, caller: &NodeCaller, actor: &Actor, session: SessionId, held: &[HeldTask]) -> Answer<()> {
    let said: Vec<Uuid> = held
        .iter()
        .filter(|t| t.started_at.is_some())
        .map(|t| t.task_id.uuid())
        .collect();
    let news = match said.is_empty() {
        true => Vec::new(),
        false => tasks::not_started(fleet.app.db.read(), &said).await?,
    };
    let Some(news) = news.first() else {
        return renew(fleet, caller, session, held).await;
    };
    let mut change = fleet.app.db.change(actor, "task.start", TaskId::from(*news)).await?;
    let named = name(change.conn(), fleet, caller, session, held).await?;
    let mut started = named
        .iter()
        .filter(|t| t.started && t.was != "started")
        .map(|t| TaskId::from(t.id));
    let Some(first) = started.next() else {
        // Another beat was faster, or the fence was an old one: then there is nothing to tell of.
        change.rollback().await?;
        return renew(fleet, caller, session, held).await;
    };
    change.is_about(first);
    change.event("task.started", first, json!({ "node_id": caller.node_id }));
    for id in started {
        change.also("task.start", id);
        change.event("task.started", id, json!({ "node_id": caller.node_id }));
    }
    change.wake(Topic::Progress);
    change.commit().await?;
    Ok(())
}

/// Leases only.
async fn renew(fleet: &Fleet, caller: &NodeCaller, session: SessionId, held: &[HeldTask]) -> Answer<()> {
    let mut conn = fleet.app.db.bookkeeping().acquire().await?;
    let named = name(&mut conn, fleet, caller, session, held).await?;
    // A beat that only keeps a lease is nobody's news.
    if named.iter().any(|task| task.changed) {
        fleet.app.wake.raise(Topic::Progress);
    }
    Ok(())
}

#[derive(sqlx::FromRow)]
struct Named {
    id: Uuid,
    was: String,
    started: bool,
    changed: bool,
}

/// One statement for everything that is named, under the fence it was given.
async fn name(
    conn: &mut PgConnection,
    fleet: &Fleet,
    caller: &NodeCaller,
    session: SessionId,
    held: &[HeldTask],
) -> Answer<Vec<Named>> {
    let now = fleet.app.clock.now();
    let ids: Vec<Uuid> = held.iter().map(|t| t.task_id.uuid()).collect();
    let fences: Vec<i64> = held.iter().map(|t| t.fence as i64).collect();
    let phases: Vec<String> = held.iter().map(|t| t.phase.chars().take(64).collect()).collect();
    // What does not fit into a column is told by nobody honest.
    let bytes = |of: fn(&Progress) -> u64| -> Vec<Option<i64>> {
        let progress = held.iter().map(|t| t.progress.as_ref());
        progress
            .map(|seen| seen.and_then(|seen| of(seen).try_into().ok()))
            .collect()
    };
    let started: Vec<Option<OffsetDateTime>> = held.iter().map(|t| t.started_at.map(Into::into)).collect();
    let named = sqlx::query_as(
        "with named as (
             select task.id, task.state as was, (task.phase, task.done_bytes, task.of_bytes) as had,
                    (held.phase, held.done_bytes, held.of_bytes) as has, held.*
             from task join unnest($1::uuid[], $2::bigint[], $3::text[], $4::timestamptz[], $9::bigint[], $10::bigint[])
                 as held (held_id, held_fence, phase, started_at, done_bytes, of_bytes)
               on task.id = held_id and task.fence = held_fence
             where task.node_id = $5 and task.node_epoch = $6 and task.state in ('dispatched', 'started', 'unknown')
             order by task.id for update of task),
         kept as (
             update task set lease_until = $7, named_by = $8, phase = named.phase,
                 phase_since = case when task.phase is distinct from named.phase or task.phase_since is null then $11
                     else task.phase_since end,
                 done_bytes = named.done_bytes, of_bytes = named.of_bytes,
                 started_at = coalesce(task.started_at, named.started_at),
                 state = case when coalesce(task.started_at, named.started_at) is not null then 'started' else 'dispatched' end,
                 version = task.version + case
                     when named.had is distinct from named.has then 1
                     when named.was <> 'started' and coalesce(task.started_at, named.started_at) is not null then 1
                     else 0 end
             from named where task.id = named.id
             returning task.id, named.was, task.state = 'started' as started,
                       named.had is distinct from named.has or named.was <> task.state as changed)
         select id, was, started, changed from kept",
    )
    .bind(ids)
    .bind(fences)
    .bind(phases)
    .bind(started)
    .bind(caller.node_id.uuid())
    .bind(caller.epoch as i64)
    .bind(OffsetDateTime::from(now.plus_s(fleet.limits.lease_s)))
    .bind(session.uuid())
    .bind(bytes(|seen| seen.done_bytes))
    .bind(bytes(|seen| seen.of_bytes))
    .bind(OffsetDateTime::from(now))
    .fetch_all(conn)
    .await?;
    Ok(named)
}
