//! Deadlines: what is late is seen, as a whole or in one phase, and what has had its time is released.

mod phases;

use std::time::Duration;

use base::http::Answer;
use base::idempotency;
use base::{Actor, Change};
use model::id::AllocationId;
use model::signal::Code;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::allocation::{moves, store, verbs};
use crate::worker::Worker;

const EVERY: Duration = Duration::from_millis(1000);
const AT_ONCE: i64 = 100;

pub(super) async fn run(worker: Worker) {
    while worker.running(tokio::time::sleep(EVERY)).await {
        if let Err(error) = look(&worker).await {
            tracing::warn!(%error, "nobody looks for what is late");
            continue;
        }
        if let Err(error) = idempotency::prune(&worker.app.db).await {
            tracing::warn!(%error, "old idempotency keys stay");
        }
    }
}

/// Looks once for everything that is late.
pub async fn look(worker: &Worker) -> sqlx::Result<()> {
    let now = earlier(worker).await?;
    for (what, done) in [
        ("late allocations", late(worker, now).await),
        ("late phases", phases::late(worker, now).await),
        ("phases that were late", phases::over(worker).await),
        ("expired allocations", expired(worker, now).await),
    ] {
        if let Err(error) = done {
            tracing::warn!(code = %error.code, what, "not looked after");
        }
    }
    Ok(())
}

/// By our clock and the database's: a process whose own clock is ahead ends nobody's time.
async fn earlier(worker: &Worker) -> sqlx::Result<OffsetDateTime> {
    sqlx::query_scalar("select least($1, clock_timestamp())")
        .bind(OffsetDateTime::from(worker.app.clock.now()))
        .fetch_one(worker.app.db.bookkeeping())
        .await
}

/// Past their deadline, or with a workflow that cannot go on.
async fn late(worker: &Worker, now: OffsetDateTime) -> Answer<()> {
    let ids: Vec<Uuid> = sqlx::query_scalar(
        "select a.id from allocation a left join workflow w on w.allocation_id = a.id and w.state = 'stuck'
         where a.ended_at is null and a.stuck_since is null and (a.deadline_at < $1 or w.id is not null) limit $2",
    )
    .bind(now)
    .bind(AT_ONCE)
    .fetch_all(worker.app.db.read())
    .await?;
    for id in ids.into_iter().map(AllocationId::from) {
        if let Err(error) = tell_late(worker, id, now).await {
            tracing::warn!(allocation = %id, %error, "it is late, and nobody is told of it yet");
        }
    }
    Ok(())
}

/// Looked at again under its lock: somebody may have tried it again since it was listed, and whoever does so sets its
/// workflow going in the same change.
async fn tell_late(worker: &Worker, id: AllocationId, now: OffsetDateTime) -> Answer<()> {
    let mut change = begin_late(worker, id).await?;
    let row = store::lock(&mut change, id).await?;
    if row.ended_at.is_some() || row.stuck_since.is_some() {
        return Ok(());
    }
    let halted: Option<(Option<String>, Option<String>)> = sqlx::query_as(
        "select error -> 'error' ->> 'code', error ->> 'at' from workflow where allocation_id = $1 and state = 'stuck'",
    )
    .bind(id.uuid())
    .fetch_optional(change.conn())
    .await?;
    let is_late = row.deadline_at.is_some_and(|deadline| deadline < now);
    if is_late || halted.is_some() {
        let (code, at_step) = halted.unwrap_or_default();
        let code = code
            .and_then(|code| code.parse().ok())
            .unwrap_or(Code::DeadlineExceeded);
        let place = at_step.unwrap_or_else(|| row.state.clone());
        moves::stuck(&mut change, &row, code, &place).await?;
        change.commit().await?;
    }
    Ok(())
}

async fn begin_late(worker: &Worker, id: AllocationId) -> sqlx::Result<Change> {
    let actor = Actor::system("deadlines");
    worker.app.db.change(&actor, "allocation.stuck", id).await
}

/// Those whose time is over end as if their tenant had released them.
async fn expired(worker: &Worker, now: OffsetDateTime) -> Answer<()> {
    let ids: Vec<Uuid> = sqlx::query_scalar(
        "select id from allocation where state = 'active' and ends_at < $1 order by ends_at limit $2",
    )
    .bind(now)
    .bind(AT_ONCE)
    .fetch_all(worker.app.db.read())
    .await?;
    for id in ids.into_iter().map(AllocationId::from) {
        if let Err(error) = release_expired(worker, id, now).await {
            tracing::warn!(allocation = %id, %error, "its time is over, and it is not released yet");
        }
    }
    Ok(())
}

async fn release_expired(worker: &Worker, id: AllocationId, now: OffsetDateTime) -> Answer<()> {
    let mut change = worker
        .app
        .db
        .change(&Actor::system("deadlines"), "allocation.release", id)
        .await?;
    // Its tenant may have been told meanwhile that it lasts longer.
    let over = store::lock(&mut change, id).await?.ends_at.is_some_and(|end| end < now);
    if over && verbs::release_in(&mut change, id, "its time was over").await? {
        change.commit().await?;
    }
    Ok(())
}
