//! The moves of an allocation. Each tells of itself; which ones exist, and what follows for the quota, the history and the
//! time that is charged, is the database's. Every state that should pass has a deadline from the moment it is entered.

use base::http::Answer;
use base::wake::Topic;
use base::{Change, Target};
use fleet::slot::lease;
use model::api::SkuKind;
use model::id::AllocationId;
use model::signal::Code;
use model::state::AllocationState;
use model::time::Timestamp;
use serde_json::json;
use time::OffsetDateTime;

use super::store::{AllocationRow, work_of};
use crate::metrics::ALLOCATION_MOVES;

/// Every allocation begins with it.
pub const FIRST_VERSION: i64 = 1;
/// Somebody has to have taken it up by then.
pub const REQUESTED_S: i64 = 60;
/// Beside what a task may run: the wait for the node, and the way back of what it was sent.
const MARGIN_S: i64 = 600;
/// An undo; the wipe on top once a disk was written.
const UNWINDING_S: i64 = 600;

/// When somebody has to look at an allocation that is still in this state. None of those that may last. What no node was
/// given a task for has nothing that takes its time on the way back.
pub const fn deadline_s(state: AllocationState, kind: SkuKind, given: bool) -> Option<i64> {
    let [makes, takes_away] = work_of(kind);
    let takes_away_s = takes_away.spec().max_runtime_s as i64;
    match state {
        AllocationState::Requested => Some(REQUESTED_S),
        AllocationState::Provisioning => Some(makes.spec().max_runtime_s as i64 + MARGIN_S),
        AllocationState::Unwinding if !given => Some(UNWINDING_S),
        AllocationState::Unwinding => Some(UNWINDING_S + takes_away_s),
        AllocationState::Releasing => Some(MARGIN_S + takes_away_s),
        AllocationState::Active | AllocationState::Released | AllocationState::Failed | AllocationState::Cancelled => {
            None
        }
    }
}

/// The same as a time, for this one as it is now.
pub async fn deadline(
    change: &mut Change,
    row: &AllocationRow,
    state: AllocationState,
) -> Answer<Option<OffsetDateTime>> {
    let kind = row.kind()?;
    let given = match (state, kind) {
        (AllocationState::Unwinding, SkuKind::Slice) => lease::any_given(change, row.id()).await?,
        _ => true,
    };
    let at = change.at();
    Ok(deadline_s(state, kind, given).map(|seconds| at.plus_s(seconds).into()))
}

/// Why a move happens.
#[derive(Clone, Debug, Default)]
pub struct Because<'a> {
    pub reason: &'a str,
    pub code: Option<Code>,
    pub detail: Option<&'a str>,
}

impl<'a> Because<'a> {
    pub fn of(reason: &'a str) -> Self {
        Self {
            reason,
            ..Self::default()
        }
    }
}

/// Enters a state. The row is locked; what it says of state and version is over after this.
pub async fn enter(change: &mut Change, row: &AllocationRow, to: AllocationState, because: &Because<'_>) -> Answer<()> {
    let at = change.at();
    let deadline = deadline(change, row, to).await?;
    let (by, correlation) = (change.actor().reference(), change.actor().correlation_id);
    sqlx::query(
        "update allocation set state = $2, state_since = $3, state_reason = $4, state_by = $5, correlation_id = $6,
             deadline_at = $7, ended_at = $8, code = coalesce($9, code), detail = coalesce($10, detail),
             waiting_since = null, waiting_code = null, stuck_since = null, stuck_code = null, stuck_at = null,
             version = version + 1
         where id = $1",
    )
    .bind(row.id)
    .bind(to.as_str())
    .bind(OffsetDateTime::from(at))
    .bind(because.reason)
    .bind(by)
    .bind(correlation)
    .bind(deadline)
    .bind(to.is_end().then(|| OffsetDateTime::from(at)))
    .bind(because.code.map(Code::as_str))
    .bind(because.detail)
    .execute(change.conn())
    .await?;
    told(change, row, to, because);
    Ok(())
}

fn told(change: &mut Change, row: &AllocationRow, to: AllocationState, because: &Because<'_>) {
    metrics::counter!(ALLOCATION_MOVES, "state" => to.as_str()).increment(1);
    change.event(
        kind(to),
        Target::from(row.id()).at_version(row.version + 1),
        json!({
            "project_id": row.project(), "from": row.state, "to": to, "reason": because.reason, "code": because.code,
            "simulated": row.simulated,
        }),
    );
    change.wake(Topic::Progress);
}

/// As everybody hears of it.
pub const fn kind(to: AllocationState) -> &'static str {
    match to {
        AllocationState::Requested => "provisioning.requested",
        AllocationState::Provisioning => "provisioning.started",
        AllocationState::Unwinding => "provisioning.unwinding",
        AllocationState::Active => "provisioning.active",
        AllocationState::Releasing => "provisioning.releasing",
        AllocationState::Released => "provisioning.released",
        AllocationState::Failed => "provisioning.failed",
        AllocationState::Cancelled => "provisioning.cancelled",
    }
}

/// It waits for its node, and says so once.
pub async fn waits(change: &mut Change, id: AllocationId, code: Code) -> sqlx::Result<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query(
        "update allocation set waiting_since = $2, waiting_code = $3, version = version + 1
         where id = $1 and ended_at is null and waiting_code is distinct from $3",
    )
    .bind(id.uuid())
    .bind(at)
    .bind(code.as_str())
    .execute(change.conn())
    .await?;
    Ok(())
}

/// What it waited for is there.
pub async fn waits_no_more(change: &mut Change, row: &AllocationRow) -> sqlx::Result<()> {
    if row.waiting_since.is_none() {
        return Ok(());
    }
    let cleared = sqlx::query(
        "update allocation set waiting_since = null, waiting_code = null, version = version + 1 where id = $1",
    );
    cleared.bind(row.id).execute(change.conn()).await?;
    change.wake(Topic::Progress);
    Ok(())
}

/// What took too long has come to its end after all.
pub async fn stuck_no_more(change: &mut Change, row: &AllocationRow) -> sqlx::Result<()> {
    let cleared = sqlx::query(
        "update allocation set stuck_since = null, stuck_code = null, stuck_at = null, version = version + 1 where id = $1",
    );
    cleared.bind(row.id).execute(change.conn()).await?;
    change.event(
        "provisioning.unstuck",
        Target::from(row.id()).at_version(row.version + 1),
        json!({ "project_id": row.project(), "at": row.stuck_at }),
    );
    change.wake(Topic::Progress);
    Ok(())
}

/// Nobody can go on without a person.
pub async fn stuck(change: &mut Change, row: &AllocationRow, code: Code, at_step: &str) -> Answer<()> {
    let at: Timestamp = change.at();
    sqlx::query(
        "update allocation set stuck_since = coalesce(stuck_since, $2), stuck_code = $3, stuck_at = $4, version = version + 1
         where id = $1",
    )
    .bind(row.id)
    .bind(OffsetDateTime::from(at))
    .bind(code.as_str())
    .bind(at_step)
    .execute(change.conn())
    .await?;
    metrics::counter!(crate::metrics::ALLOCATION_ALARMS, "code" => Code::AllocationStuck.as_str()).increment(1);
    tracing::error!(allocation_id = %row.id(), state = %row.state, %code, at = at_step, "an allocation is stuck");
    change.event(
        "provisioning.stuck",
        row.id(),
        json!({ "project_id": row.project(), "state": row.state, "code": code, "at": at_step }),
    );
    change.wake(Topic::Progress);
    Ok(())
}
