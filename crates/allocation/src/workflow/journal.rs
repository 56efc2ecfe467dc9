//! The journal in the database. A workflow is claimed for a while by one worker at a time; every write names the claim's
//! number, and one that is out of date writes nothing. One statement ends a move and begins the next. Who has it until when
//! is by the database's clock alone: a worker whose own clock is wrong takes nothing from others and keeps nothing from them.

use base::http::Answer;
use base::wake::Topic;
use base::{Change, Db};
use model::id::{AllocationId, OpId, derive_op};
use model::signal::Code;
use model::time::Timestamp;
use sqlx::types::Json;
use steps::{Cause, End, Fail, Next, Record, Way};
use time::OffsetDateTime;
use uuid::Uuid;

use super::Flow;
use crate::metrics::WORKFLOW_MOVES;

/// How long a worker that is gone keeps others away. It renews three times within.
pub const LEASE_S: i64 = 6;
/// Nobody parks a workflow for longer; whoever has to wait looks again.
const PARKED_MS: i64 = 10_000;
/// Further ahead than any lease, or any wait: the database's clock was wrong when it was written.
const LEASED_AHEAD_S: i64 = LEASE_S + 5;
const DUE_AHEAD_S: i64 = PARKED_MS / 1000 + 5;

/// Begins a workflow with the change that wants it. The same one twice is one.
pub async fn start(change: &mut Change, flow: Flow, allocation: AllocationId) -> Answer<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query(
        "insert into workflow (id, flow, allocation_id, state, lease_until, due_at, created_at)
         values ($1, $2, $3, 'running', now(), now(), $4) on conflict (id) do nothing",
    )
    .bind(derive_op(allocation, flow.name(), 1).uuid())
    .bind(flow.name())
    .bind(allocation.uuid())
    .bind(at)
    .execute(change.conn())
    .await?;
    change.wake(Topic::Workflows);
    Ok(())
}

/// It turns back before its next step.
pub async fn cancel(change: &mut Change, workflow: OpId) -> sqlx::Result<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query(
        "update workflow set cancel_at = coalesce(cancel_at, $2), due_at = now() where id = $1 and ended_at is null",
    )
    .bind(workflow.uuid())
    .bind(at)
    .execute(change.conn())
    .await?;
    change.wake(Topic::Workflows);
    Ok(())
}

/// Nobody goes on with any of this allocation's.
pub async fn abandon(change: &mut Change, allocation: AllocationId) -> sqlx::Result<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query(
        "update workflow set state = 'undone', ended_at = $2, epoch = epoch + 1 where allocation_id = $1 and ended_at is null",
    )
    .bind(allocation.uuid())
    .bind(at)
    .execute(change.conn())
    .await?;
    Ok(())
}

/// What is stuck or waits is tried again now. Whoever takes it up reads in the journal where it was: a flow that this or
/// another build has the steps of goes on there.
pub async fn retry(change: &mut Change, allocation: AllocationId) -> sqlx::Result<()> {
    sqlx::query(
        "update workflow set state = case when state <> 'stuck' then state when error -> 'error' ->> 'code' = $2 then 'running'
                                          else 'undoing' end, due_at = now()
         where allocation_id = $1 and ended_at is null",
    )
    .bind(allocation.uuid())
    .bind(Code::FlowChanged.as_str())
    .execute(change.conn())
    .await?;
    change.wake(Topic::Workflows);
    Ok(())
}

/// A workflow in this worker's hands.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Claim {
    pub id: Uuid,
    pub flow: String,
    pub allocation_id: Uuid,
    pub epoch: i64,
    pub cancel_at: Option<OffsetDateTime>,
    pub records: Json<Vec<Record>>,
}

/// Takes up to `most` that are due and in nobody's hands; those whose task has ended are due.
pub async fn claim(db: &Db, most: i64) -> sqlx::Result<Vec<Claim>> {
    sqlx::query_as(
        "update workflow w set epoch = w.epoch + 1, lease_until = now() + $1 * interval '1 second'
         where w.id in (
             select id from workflow
             where state in ('running', 'undoing')
               and (lease_until <= now() or lease_until > now() + $3 * interval '1 second')
               and (due_at <= now() or due_at > now() + $4 * interval '1 second'
                    or exists (select from task t where t.id = waits_for and t.ended_at is not null))
             order by due_at limit $2 for update skip locked)
         returning w.id, w.flow, w.allocation_id, w.epoch, w.cancel_at,
             coalesce((select jsonb_agg(s.record order by s.seq) from workflow_step s where s.workflow_id = w.id), '[]') as records",
    )
    .bind(LEASE_S)
    .bind(most)
    .bind(LEASED_AHEAD_S)
    .bind(DUE_AHEAD_S)
    .fetch_all(db.bookkeeping())
    .await
}

/// Keeps what this process has in its hands.
pub async fn renew(db: &Db, claims: &[(Uuid, i64)]) -> sqlx::Result<()> {
    let (ids, epochs): (Vec<Uuid>, Vec<i64>) = claims.iter().copied().unzip();
    sqlx::query(
        "update workflow w set lease_until = now() + $3 * interval '1 second'
         from unnest($1::uuid[], $2::bigint[]) as held (id, epoch)
         where w.id = held.id and w.epoch = held.epoch and w.lease_until > to_timestamp(0)",
    )
    .bind(ids)
    .bind(epochs)
    .bind(LEASE_S)
    .execute(db.bookkeeping())
    .await?;
    Ok(())
}

/// Whether this worker still has it, and whether somebody wants it to turn back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Still {
    Ours {
        cancelled: bool,
    },
    /// Another worker has it by now: nothing was written.
    Fenced,
}

/// The n-th record of a claim.
pub async fn append(db: &Db, claim: &Claim, n: usize, record: &Record) -> sqlx::Result<Still> {
    let now: Timestamp = db.clock().now();
    let (state, over) = match &record.next {
        Next::Begin { way: Way::Run, .. } => ("running", false),
        Next::Begin { way: Way::Undo, .. } => ("undoing", false),
        Next::End(End::Done) => ("done", true),
        Next::End(End::Undone { .. }) => ("undone", true),
        Next::End(End::Halted { .. } | End::Stuck { .. }) => ("stuck", false),
    };
    let row: Option<(Option<OffsetDateTime>,)> = sqlx::query_as(
        "with fenced as (
             update workflow set state = $3, ended_at = $4, error = $5, waits_for = null, wait_reason = null, due_at = now()
             where id = $1 and epoch = $2 returning id, cancel_at),
              written as (insert into workflow_step (workflow_id, seq, at, record) select id, $7, $6, $8 from fenced)
         select cancel_at from fenced",
    )
    .bind(claim.id)
    .bind(claim.epoch)
    .bind(state)
    .bind(over.then(|| OffsetDateTime::from(now)))
    .bind(record.cause.as_ref().map(|cause| Json(cause.clone())))
    .bind(OffsetDateTime::from(now))
    .bind(i32::try_from(n).unwrap_or(i32::MAX))
    .bind(Json(record))
    .fetch_optional(db.bookkeeping())
    .await?;
    metrics::counter!(WORKFLOW_MOVES, "flow" => claim.flow.clone()).increment(1);
    Ok(match row {
        Some((cancel_at,)) => Still::Ours {
            cancelled: cancel_at.is_some(),
        },
        None => Still::Fenced,
    })
}

/// Out of this worker's hands until the task has ended, or until then; a renewal that is on its way does not bring it back.
pub async fn park(db: &Db, claim: &Claim, task: Option<Uuid>, after_ms: i64) -> sqlx::Result<()> {
    sqlx::query(
        "update workflow set lease_until = to_timestamp(0), waits_for = $3, due_at = now() + $4 * interval '1 millisecond'
         where id = $1 and epoch = $2 and ended_at is null",
    )
    .bind(claim.id)
    .bind(claim.epoch)
    .bind(task)
    .bind(after_ms.min(PARKED_MS))
    .execute(db.bookkeeping())
    .await?;
    Ok(())
}

/// Nothing can be done without a person, and there is no record to say so: nobody claims it until it is tried again.
pub async fn stuck(db: &Db, claim: &Claim, at: &str, error: &Fail) -> sqlx::Result<()> {
    let cause = Cause {
        at: at.to_owned(),
        error: error.clone(),
    };
    sqlx::query(
        "update workflow set state = 'stuck', error = $3, lease_until = to_timestamp(0), waits_for = null
         where id = $1 and epoch = $2 and ended_at is null",
    )
    .bind(claim.id)
    .bind(claim.epoch)
    .bind(Json(cause))
    .execute(db.bookkeeping())
    .await?;
    Ok(())
}
