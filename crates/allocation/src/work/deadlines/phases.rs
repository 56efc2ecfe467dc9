//! Each phase has a time of its own, in the table of its task. Whoever is in one for longer is stuck in it: that is told,
//! and ends when the phase does, or when somebody gives it its time once more.

use base::Actor;
use base::http::Answer;
use model::id::AllocationId;
use model::signal::Code;
use model::task::TaskType;
use sqlx::PgExecutor;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{AT_ONCE, begin_late};
use crate::allocation::{moves, store};
use crate::worker::Worker;

/// Every phase as nodes tell of it, with its task type and the seconds it may take; also those of a way back.
fn table() -> (Vec<&'static str>, Vec<String>, Vec<i64>) {
    let (mut types, mut names, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
    for task_type in TaskType::ALL.iter().copied() {
        for phase in task_type.phases() {
            for (name, within_s) in [
                (phase.name.to_owned(), phase.within_s),
                (phase.undo(), phase.undone_within_s),
            ] {
                types.push(task_type.as_str());
                names.push(name);
                seconds.push(i64::from(within_s));
            }
        }
    }
    (types, names, seconds)
}

/// What makes an allocation and what takes it away is of its first generation; wishes that came later say themselves what
/// became of them.
pub(super) async fn late(worker: &Worker, now: OffsetDateTime) -> Answer<()> {
    let late = in_late_phases(worker.app.db.read(), now, None).await?;
    for (id, phase) in late {
        let id = AllocationId::from(id);
        if let Err(error) = tell(worker, id, now, phase).await {
            tracing::warn!(allocation = %id, %error, "a phase is late, and nobody is told of it yet");
        }
    }
    Ok(())
}

/// Looked at again under its lock: it may have gone on, or been tried again, since it was listed.
async fn tell(worker: &Worker, id: AllocationId, now: OffsetDateTime, phase: String) -> Answer<()> {
    let mut change = begin_late(worker, id).await?;
    let row = store::lock(&mut change, id).await?;
    let still = in_late_phases(change.conn(), now, Some(id.uuid())).await?;
    if still.iter().any(|(_, at)| *at == phase) {
        moves::stuck(&mut change, &row, Code::DeadlineExceeded, &phase).await?;
        change.commit().await?;
    }
    Ok(())
}

/// All of them, or this one if it is.
async fn in_late_phases(
    db: impl PgExecutor<'_>,
    now: OffsetDateTime,
    only: Option<Uuid>,
) -> sqlx::Result<Vec<(Uuid, String)>> {
    let (types, names, seconds) = table();
    sqlx::query_as(
        "select a.id, t.phase from unnest($2::text[], $3::text[], $4::bigint[]) as may (task_type, phase, within_s)
         join task t on t.task_type = may.task_type and t.phase = may.phase
             and t.state in ('queued', 'dispatched', 'started', 'unknown')
             and t.phase_since < $1 - may.within_s * interval '1 second'
         join intent i on i.sha256 = t.intent_sha256 and i.generation = 1
         join allocation a on a.id = i.allocation_id
         where a.ended_at is null and a.stuck_since is null
           and coalesce(a.retried_at < $1 - may.within_s * interval '1 second', true)
           and ($6::uuid is null or a.id = $6) limit $5",
    )
    .bind(now)
    .bind(types)
    .bind(names)
    .bind(seconds)
    .bind(AT_ONCE)
    .bind(only)
    .fetch_all(db)
    .await
}

/// Those that have come out of the phase they were stuck in.
pub(super) async fn over(worker: &Worker) -> Answer<()> {
    let (_, names, _) = table();
    let over: Vec<(Uuid, String)> = sqlx::query_as(
        "select a.id, a.stuck_at from allocation a
         where a.ended_at is null and a.stuck_code = $1 and a.stuck_at = any($2)
           and not exists (select from intent i join task t on t.intent_sha256 = i.sha256
                           where i.allocation_id = a.id and i.generation = 1 and t.phase = a.stuck_at
                             and t.state in ('queued', 'dispatched', 'started', 'unknown')) limit $3",
    )
    .bind(Code::DeadlineExceeded.as_str())
    .bind(names)
    .bind(AT_ONCE)
    .fetch_all(worker.app.db.read())
    .await?;
    for (id, phase) in over {
        let id = AllocationId::from(id);
        if let Err(error) = tell_over(worker, id, &phase).await {
            tracing::warn!(allocation = %id, %error, "a phase is over, and nobody is told of it yet");
        }
    }
    Ok(())
}

async fn tell_over(worker: &Worker, id: AllocationId, phase: &str) -> Answer<()> {
    let actor = Actor::system("deadlines");
    let mut change = worker.app.db.change(&actor, "allocation.unstuck", id).await?;
    let row = store::lock(&mut change, id).await?;
    if row.ended_at.is_none() && row.stuck_at.as_deref() == Some(phase) {
        moves::stuck_no_more(&mut change, &row).await?;
        change.commit().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_and_its_way_back_is_watched() {
        let (types, names, seconds) = table();
        let all: usize = TaskType::ALL.iter().map(|of| of.phases().len()).sum();
        assert_eq!([types.len(), names.len(), seconds.len()], [2 * all; 3]);
        assert!(seconds.iter().all(|within_s| *within_s > 0));
        assert!(names.contains(&"undo_image_write_convert".to_owned()));
    }
}
