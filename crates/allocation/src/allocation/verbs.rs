//! What can be done with an allocation that is there. Each verb decides under the row's lock, and asking twice is asking
//! once: whoever comes second finds what the first began.

use base::Change;
use base::auth::Principal;
use base::http::{Answer, ApiError};
use base::wake::Topic;
use fleet::machine;
use fleet::node::store as nodes;
use fleet::slot::lease;
use fleet::task::store as tasks;
use fleet::{Fleet, intent};
use model::api::{AllocationCreate, AllocationExtend};
use model::id::AllocationId;
use model::signal::Code;
use model::state::{AllocationState, ProjectRole, TaskState};
use serde_json::json;
use time::OffsetDateTime;

use super::create::check_ttl;
use super::later;
use super::moves::{self, Because};
use super::refused::refused;
use super::store::{self, AllocationRow};
use crate::project::quota;
use crate::seat::Seat;
use crate::workflow::{Flow, journal};

/// The row, if the caller may know of it.
pub async fn seen(fleet: &Fleet, principal: &Principal, id: AllocationId) -> Answer<(AllocationRow, Seat)> {
    let seat = Seat::take_for(fleet.app.db.bookkeeping(), principal, id).await?;
    let row = store::get(fleet.app.db.bookkeeping(), id).await?;
    Ok((row.ok_or(Code::NotFound)?, seat))
}

/// Takes back what is being made. What has become active meanwhile is left alone.
pub async fn cancel(fleet: &Fleet, principal: &Principal, id: AllocationId) -> Answer<()> {
    let (row, seat) = seen(fleet, principal, id).await?;
    seat.may_change(row.creator())?;
    let mut change = fleet.app.db.change(&principal.actor(), "allocation.cancel", id).await?;
    let row = store::lock(&mut change, id).await?;
    match row.state()? {
        AllocationState::Requested | AllocationState::Provisioning => turn_back(&mut change, row, "cancelled").await?,
        AllocationState::Unwinding | AllocationState::Cancelled => return Ok(()),
        AllocationState::Active => return Err(Code::AllocationAlreadyActive.into()),
        state @ (AllocationState::Releasing | AllocationState::Released | AllocationState::Failed) => {
            return Err(refused(
                &row,
                format!("the allocation is {state}: only what is being made is cancelled"),
            ));
        }
    }
    Ok(change.commit().await?)
}

/// From every state that is no end. Charging stops here, whatever happens on the host afterwards.
pub async fn release(fleet: &Fleet, principal: &Principal, id: AllocationId, reason: Option<&str>) -> Answer<()> {
    let (row, seat) = seen(fleet, principal, id).await?;
    seat.may_end(row.creator(), reason)?;
    let mut change = fleet
        .app
        .db
        .change(&principal.actor(), "allocation.release", id)
        .await?;
    change.detail(json!({ "reason": reason }));
    if release_in(&mut change, id, reason.unwrap_or("released")).await? {
        change.commit().await?;
    }
    Ok(())
}

/// The same inside a change; false if there is nothing to do any more.
pub async fn release_in(change: &mut Change, id: AllocationId, reason: &str) -> Answer<bool> {
    let row = store::lock(change, id).await?;
    match row.state()? {
        AllocationState::Requested | AllocationState::Provisioning => turn_back(change, row, reason).await?,
        AllocationState::Active => {
            moves::enter(change, &row, AllocationState::Releasing, &Because::of(reason)).await?;
            later::lock(change, &row).await?;
            intent::withdraw(change, id).await?;
            later::call_off(change, &row).await?;
            journal::start(change, Flow::Release, id).await?;
        }
        AllocationState::Unwinding
        | AllocationState::Releasing
        | AllocationState::Released
        | AllocationState::Failed
        | AllocationState::Cancelled => return Ok(false),
    }
    Ok(true)
}

/// On its way back: the workflow turns around, and nothing more is made under this intent.
async fn turn_back(change: &mut Change, mut row: AllocationRow, reason: &str) -> Answer<()> {
    // First, so that the move is the last change, and its event tells of the version that is there to be read.
    sqlx::query("update allocation set cancel_asked_at = $2, version = version + 1 where id = $1")
        .bind(row.id)
        .bind(OffsetDateTime::from(change.at()))
        .execute(change.conn())
        .await?;
    row.version += 1;
    moves::enter(change, &row, AllocationState::Unwinding, &Because::of(reason)).await?;
    intent::withdraw(change, row.id()).await?;
    journal::cancel(change, row.workflow(Flow::Provision.name())).await?;
    Ok(())
}

/// The tenant's side ends at once, whatever the node says; its slots are quarantined until they are wiped with proof.
pub async fn force_release(fleet: &Fleet, principal: &Principal, id: AllocationId, reason: &str) -> Answer<()> {
    seen(fleet, principal, id).await?;
    let mut change = fleet
        .app
        .db
        .change(&principal.actor(), "allocation.force_release", id)
        .await?;
    change.detail(json!({ "reason": reason }));
    let row = store::lock_to_end(&mut change, id).await?;
    let (through, end) = match row.state()? {
        AllocationState::Requested | AllocationState::Provisioning => {
            (Some(AllocationState::Unwinding), AllocationState::Failed)
        }
        AllocationState::Unwinding => (None, AllocationState::Failed),
        AllocationState::Active => (Some(AllocationState::Releasing), AllocationState::Released),
        AllocationState::Releasing => (None, AllocationState::Released),
        AllocationState::Released | AllocationState::Failed | AllocationState::Cancelled => return Ok(()),
    };
    // Before its intent and its tasks, as whoever brings a result does. A node that was removed is nobody's to wait for.
    nodes::lock(&mut change, row.node()).await?;
    sqlx::query("update allocation set forced = true, version = version + 1 where id = $1")
        .bind(row.id)
        .execute(change.conn())
        .await?;
    let mut row = store::lock(&mut change, id).await?;
    if let Some(through) = through {
        moves::enter(&mut change, &row, through, &Because::of(reason)).await?;
        row = store::lock(&mut change, id).await?;
    }
    intent::withdraw(&mut change, id).await?;
    let ops = store::MAKES.map(|makes| row.op(makes).uuid());
    for task in tasks::of_ops(change.conn(), &ops).await? {
        let task = tasks::lock(&mut change, task.id()).await?.ok_or(Code::NotFound)?;
        if task.state()? == TaskState::Queued {
            fleet::task::cancel(&mut change, &task).await?;
        }
    }
    later::call_off(&mut change, &row).await?;
    lease::abandon(&mut change, id, reason).await?;
    machine::abandon(&mut change, id, reason).await?;
    moves::enter(&mut change, &row, end, &Because::of(reason)).await?;
    journal::abandon(&mut change, id).await?;
    Ok(change.commit().await?)
}

/// The stuck step once more.
pub async fn retry(fleet: &Fleet, principal: &Principal, id: AllocationId) -> Answer<()> {
    seen(fleet, principal, id).await?;
    let mut change = fleet.app.db.change(&principal.actor(), "allocation.retry", id).await?;
    let row = store::lock(&mut change, id).await?;
    if row.stuck_since.is_none() {
        return Err(refused(&row, format!("the allocation is {} and not stuck", row.state)));
    }
    let deadline = moves::deadline(&mut change, &row, row.state()?).await?;
    sqlx::query(
        "update allocation set stuck_since = null, stuck_code = null, stuck_at = null, deadline_at = $2, retried_at = $3,
             version = version + 1
         where id = $1",
    )
    .bind(row.id)
    .bind(deadline)
    .bind(OffsetDateTime::from(change.at()))
    .execute(change.conn())
    .await?;
    journal::retry(&mut change, id).await?;
    change.event("provisioning.retried", id, json!({ "project_id": row.project() }));
    change.wake(Topic::Progress);
    Ok(change.commit().await?)
}

/// A new end, counted from now.
pub async fn extend(fleet: &Fleet, principal: &Principal, id: AllocationId, wish: &AllocationExtend) -> Answer<()> {
    let ttl_s = wish
        .ttl_s
        .ok_or_else(|| ApiError::field("ttl_s", "seconds from now on, or null for no end"))?;
    check_ttl(ttl_s)?;
    let (row, seat) = seen(fleet, principal, id).await?;
    seat.may_change(row.creator())?;
    let mut change = fleet.app.db.change(&principal.actor(), "allocation.extend", id).await?;
    change.detail(json!(wish));
    quota::lock(&mut change, row.project()).await?.admits_ttl(ttl_s)?;
    let row = store::lock(&mut change, id).await?;
    if row.state()? != AllocationState::Active {
        return Err(refused(&row, format!("the allocation is {}, not active", row.state)));
    }
    let at = change.at();
    let ends_at = ttl_s.and_then(|ttl| i64::try_from(ttl).ok()).map(|ttl| at.plus_s(ttl));
    sqlx::query("update allocation set ends_at = $2, version = version + 1 where id = $1")
        .bind(row.id)
        .bind(ends_at.map(OffsetDateTime::from))
        .execute(change.conn())
        .await?;
    change.event(
        "provisioning.extended",
        id,
        json!({ "project_id": row.project(), "ends_at": ends_at }),
    );
    change.wake(Topic::Progress);
    Ok(change.commit().await?)
}

/// What was asked for before, for a new allocation.
pub async fn asked_before(fleet: &Fleet, principal: &Principal, id: AllocationId) -> Answer<AllocationCreate> {
    let (row, seat) = seen(fleet, principal, id).await?;
    seat.needs(ProjectRole::Member)?;
    match row.state()? {
        AllocationState::Failed | AllocationState::Cancelled => {
            let creator = row.creator();
            let mut wish: AllocationCreate = serde_json::from_value(row.request).map_err(ApiError::internal)?;
            // Keys that somebody else named open nothing of the caller's: theirs are taken, as they have stored them.
            if creator != principal.user_id {
                wish.ssh_public_keys.clear();
            }
            Ok(wish)
        }
        state @ (AllocationState::Requested
        | AllocationState::Provisioning
        | AllocationState::Unwinding
        | AllocationState::Active
        | AllocationState::Releasing
        | AllocationState::Released) => Err(refused(
            &row,
            format!("the allocation is {state}, not failed or cancelled"),
        )),
    }
}
