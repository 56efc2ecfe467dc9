//! Handing tasks out: again what this session was given and has not named, and what is queued, each with a share of its
//! own, so that what a node does not take yet holds up nothing else. The bytes go out as they were signed. Slots that a
//! task makes a VM of are dirty from then on: a trigger writes that down.

use base::http::{Answer, ApiError};
use model::id::{NodeId, SessionId};
use model::node_api::{OfferedTask, WaitAnswer};
use model::task::TaskType;
use model::time::Timestamp;
use sqlx::PgPool;
use std::collections::HashSet;
use time::OffsetDateTime;
use uuid::Uuid;

use super::store;
use crate::Fleet;

/// At most this many of either kind in one answer; the rest follows with the next. It stands in the text, too: the planner
/// must know it.
const BATCH: usize = 16;
/// The clocks of two machines of ours may differ by as much. What is further in the future was so before our clock was set
/// back.
const DIFFER_S: i64 = 5;

#[derive(sqlx::FromRow)]
struct Claimed {
    id: Uuid,
    /// None: it is to be stopped, not handed out.
    fence: Option<i64>,
    envelope: Option<Vec<u8>>,
}

/// What a wait is answered with: tasks for this node, and those it has that somebody wants stopped.
pub async fn claim(fleet: &Fleet, node: NodeId, epoch: u64, session: SessionId) -> Answer<WaitAnswer> {
    let now = fleet.app.clock.now();
    let rows: Vec<Claimed> = sqlx::query_as(
        "with here as (
             select id from node where id = $1 and epoch = $2 and session_id = $3 and state not in ('quarantined', 'removed')),
         -- It was given out, and this session has not named it. Whatever has waited longest comes first.
         lost as (
             select task.id from task join here on here.id = task.node_id
             where node_epoch = $2 and task.state in ('dispatched', 'unknown')
               and (named_by is distinct from $3 or task.state = 'unknown')
               and (delivered_to is distinct from $3 or delivered_at < $5 or delivered_at > $8)
             order by delivered_at, seq limit 16 for update of task skip locked),
         queued as (
             select task.id from task join here on here.id = task.node_id
             where node_epoch = $2 and task.state = 'queued' and start_by > $4
               -- A VM is made only of slots that are still held for it.
               and (task.slots is null or task.task_type <> $7 or not exists (
                    select from unnest(task.slots) as wanted left join slot on slot.id = wanted
                    where (slot.state = 'reserved' or slot.dirty_op = task.op_id) is not true))
             order by seq limit 16 for update of task skip locked),
         next as (select id, false as fresh from lost union all select id, true from queued),
         given as (
             update task set delivered_to = $3, delivered_at = $4,
                 state = case when fresh then 'dispatched' else state end,
                 fence = case when fresh then nextval('task_fence') else fence end,
                 lease_until = case when fresh then $6 else lease_until end,
                 dispatched_at = case when fresh then $4 else dispatched_at end,
                 version = case when fresh then version + 1 else version end
             from next where task.id = next.id
             returning task.id, task.fence, task.envelope, task.seq)
         select id, fence, envelope from (
             select * from given
             union all
             select id, null, null, 0 from task
             where node_id = $1 and cancel_at is not null and state in ('dispatched', 'started', 'unknown')) as out
         order by seq",
    )
    .bind(node.uuid())
    .bind(epoch as i64)
    .bind(session.uuid())
    .bind(OffsetDateTime::from(now))
    .bind(OffsetDateTime::from(now.plus_ms(-fleet.limits.redeliver_ms)))
    .bind(OffsetDateTime::from(now.plus_s(fleet.limits.lease_s)))
    .bind(TaskType::VmProvision.as_str())
    .bind(OffsetDateTime::from(now.plus_s(DIFFER_S)))
    .fetch_all(fleet.app.db.bookkeeping())
    .await?;
    let lease_s = u32::try_from(fleet.limits.lease_s).map_err(ApiError::internal)?;
    let (tasks, cancel) = (Vec::new(), Vec::new());
    let mut answer = WaitAnswer { tasks, cancel };
    for row in rows {
        match (row.fence, row.envelope) {
            (Some(fence), Some(envelope)) => answer.tasks.push(OfferedTask {
                task_id: row.id.into(),
                fence: fence as u64,
                lease_s,
                // A row that somebody else wrote may hold anything; then this is an envelope that no node accepts.
                envelope: store::readable(&envelope),
            }),
            _ => answer.cancel.push(row.id.into()),
        }
    }
    if answer.tasks.len() >= BATCH {
        // There may be more; the next wait looks at once.
        fleet.dispatch.ring(node);
    }
    Ok(answer)
}

/// Nodes with something to hand out: the one query that serves every held wait of this process.
pub async fn nodes_with_work(pool: &PgPool, now: Timestamp, redeliver_ms: i64) -> sqlx::Result<HashSet<NodeId>> {
    let ids: Vec<Uuid> = sqlx::query_scalar(
        "select node_id from task where state = 'queued' and start_by > $1
         union
         select t.node_id from task t join node n on n.id = t.node_id
         where t.state in ('dispatched', 'unknown') and (t.named_by is distinct from n.session_id or t.state = 'unknown')
           and (t.delivered_to is distinct from n.session_id or t.delivered_at < $2 or t.delivered_at > $4)
         union
         select node_id from task where state in ('dispatched', 'started', 'unknown') and cancel_at between $3 and $4",
    )
    .bind(OffsetDateTime::from(now))
    .bind(OffsetDateTime::from(now.plus_ms(-redeliver_ms)))
    .bind(OffsetDateTime::from(now.plus_s(-5)))
    .bind(OffsetDateTime::from(now.plus_s(DIFFER_S)))
    .fetch_all(pool)
    .await?;
    Ok(ids.into_iter().map(Into::into).collect())
}
