//! A result lands once: signed by that node's executor, for the bytes that were signed, under the fence that was
//! given. The same result again is fine; a different one is an alarm.

use base::Change;
use base::http::{Answer, ApiError};
use base::tx::Actor;
use model::dsse;
use model::envelope::{CLOCK_TOLERANCE_S, TaskPayload};
use model::id::{NodeId, TaskId};
use model::key::PublicKey;
use model::node_api::{ResultAnswer, ResultRequest};
use model::outcome::{Outcome, ResultPayload};
use model::signal::Code;
use model::state::TaskState;
use model::task::{Task, TaskType, health_probe, topology_discover};
use serde_json::json;
use time::OffsetDateTime;

use super::store::{self, OnNode};
use super::{TaskRow, ends, enqueue_later_discovery, reissue};
use crate::Fleet;
use crate::identity::NodeCaller;
use crate::machine;
use crate::metrics::{ALARMS, TASKS_ENDED};
use crate::node::{NodeRow, state, store as nodes};
use crate::slot;

pub async fn land(
    fleet: &Fleet,
    caller: &NodeCaller,
    actor: &Actor,
    id: TaskId,
    request: ResultRequest,
) -> Answer<ResultAnswer> {
    match attempt(fleet, caller, actor, id, &request).await {
        Err(error)
            if matches!(
                error.code,
                Code::ResultSignatureInvalid
                    | Code::StaleFence
                    | Code::ResultConflict
                    | Code::ResultMalformed
                    | Code::RefusalEarly
                    | Code::NotFound
            ) =>
        {
            metrics::counter!(ALARMS, "code" => error.code.as_str()).increment(1);
            tracing::warn!(task_id = %id, node_id = %caller.node_id, code = %error.code, "a result was refused");
            fleet.app.db.refusal(actor, "task.result", id, error.code).await?;
            Err(error)
        }
        other => other,
    }
}

async fn attempt(
    fleet: &Fleet,
    caller: &NodeCaller,
    actor: &Actor,
    id: TaskId,
    request: &ResultRequest,
) -> Answer<ResultAnswer> {
    let mut change = fleet.app.db.change(actor, "task.result", id).await?;
    let found = store::lock_with_node(&mut change, caller.node_id, id).await?;
    let OnNode {
        task: row,
        result_public,
    } = found.ok_or(Code::NotFound)?;
    let result = open(fleet, result_public.as_deref(), &row, caller, request)?;
    answers_these_bytes(&mut change, &row, &result).await?;
    let bytes = request.envelope.to_bytes();
    if let Some(landed) = &row.result {
        return if *landed == bytes {
            Ok(ResultAnswer { duplicate: true })
        } else {
            Err(Code::ResultConflict.into())
        };
    }
    let from = row.state()?;
    match from {
        TaskState::Dispatched | TaskState::Started | TaskState::Unknown => {}
        TaskState::Queued => return Err(Code::StaleFence.into()),
        TaskState::Succeeded | TaskState::Failed | TaskState::Expired | TaskState::Cancelled => {
            return Err(Code::ResultConflict.into());
        }
    }
    not_early(fleet, &mut change, &row, &result).await?;
    let to = end_of(&result, &row)?;
    let seen = seen(&row, &result, to)?;
    write(&mut change, &row, &result, to, bytes, seen).await?;
    let revoked = result.code == Some(Code::KeyRevoked) && reissue::key_is_revoked(fleet, &mut change, &row).await?;
    let mut again = None;
    if revoked {
        again = reissue::again(fleet, &mut change, &row).await?;
    } else if result.outcome == Outcome::Refused {
        // A node that will not take what we signed: somebody wrote into our queue, or keys and clocks disagree.
        metrics::counter!(ALARMS, "code" => result.code.map_or("refused", Code::as_str)).increment(1);
    }
    // What is issued again goes on.
    if again.is_none() {
        consequences(fleet, &mut change, &row, &result, to).await?;
    }
    metrics::counter!(TASKS_ENDED, "type" => row.task_type.clone(), "state" => to.as_str()).increment(1);
    change.commit().await?;
    Ok(ResultAnswer { duplicate: false })
}

/// Signature first; then that it answers this task, on this node, in this epoch, under this fence, for these bytes.
fn open(
    fleet: &Fleet,
    result_public: Option<&[u8]>,
    row: &TaskRow,
    caller: &NodeCaller,
    request: &ResultRequest,
) -> Answer<ResultPayload> {
    let key: [u8; 32] = result_public
        .and_then(|key| key.try_into().ok())
        .ok_or(Code::ResultSignatureInvalid)?;
    let result = ResultPayload::open(&request.envelope, &PublicKey::from_bytes(key))?;
    let ours = result.aud == fleet.app.installation
        && result.task_id == row.id()
        && result.node_id == caller.node_id
        && result.node_epoch == caller.epoch
        && row.node_epoch == caller.epoch as i64;
    if !ours {
        return Err(Code::ResultConflict.into());
    }
    if row.fence != Some(request.fence as i64) {
        return Err(Code::StaleFence.into());
    }
    Ok(result)
}

/// A result answers the bytes that were signed. A refusal may answer the bytes that were handed out instead, if
/// somebody has changed those in our queue; bytes that came from neither place are somebody else's game.
async fn answers_these_bytes(change: &mut Change, row: &TaskRow, result: &ResultPayload) -> Answer<()> {
    if result.payload_sha256.as_bytes().as_slice() == row.payload_sha256 {
        return Ok(());
    }
    if result.outcome == Outcome::Refused {
        let handed_out = store::handed_out(change.conn(), row.id()).await?;
        if result.payload_sha256 == handed_out.payload_digest() {
            return Ok(());
        }
    }
    Err(Code::ResultConflict.into())
}

/// An executor that cannot tell who has signed a task keeps no account of its refusal: with its keys up to date, or the same
/// bytes in their right wrapping, it may take it yet. Where that was said of what we did sign, it counts only when the task
/// can no longer start; so nobody gets a refusal signed first and the work done afterwards.
async fn not_early(fleet: &Fleet, change: &mut Change, row: &TaskRow, result: &ResultPayload) -> Answer<()> {
    if !result.is_hearsay() {
        return Ok(());
    }
    let envelope = store::handed_out(change.conn(), row.id()).await?;
    let Some(ours) = reissue::signed_payload(&envelope, row, fleet.keyring().manifest()) else {
        return Ok(());
    };
    // Started, as its node has said itself.
    if row.started_at.is_some() {
        return Err(Code::ResultConflict.into());
    }
    let can_start_until = ours.start_by.plus_s(2 * CLOCK_TOLERANCE_S);
    if change.at() <= can_start_until {
        let wait_ms = can_start_until.since_ms(change.at());
        return Err(ApiError::new(Code::RefusalEarly).message(format!("it may start for another {} s", wait_ms / 1000)));
    }
    Ok(())
}

fn end_of(result: &ResultPayload, row: &TaskRow) -> Answer<TaskState> {
    let to = match result.outcome {
        Outcome::Succeeded => TaskState::Succeeded,
        // It was never begun, for a reason of ours; it is issued again.
        Outcome::Refused if result.code == Some(Code::KeyRevoked) => TaskState::Cancelled,
        Outcome::Failed | Outcome::Refused => TaskState::Failed,
        Outcome::Cancelled => TaskState::Cancelled,
        Outcome::Expired => TaskState::Expired,
    };
    let started = result.started_at.is_some() || row.started_at.is_some();
    if to == TaskState::Succeeded && !started {
        return Err(ApiError::new(Code::ResultMalformed).message("a task that never started cannot have succeeded"));
    }
    Ok(to)
}

/// What a probe has seen. Ready is earned by findings, not by the word "succeeded".
fn seen(row: &TaskRow, result: &ResultPayload, to: TaskState) -> Answer<Option<health_probe::Output>> {
    if to != TaskState::Succeeded || row.task_type != TaskType::HealthProbe.as_str() {
        return Ok(None);
    }
    let output = result.output.as_ref().ok_or(Code::ResultMalformed)?;
    let seen = serde_json::from_str(output.get()).map_err(|_| Code::ResultMalformed)?;
    Ok(Some(seen))
}

macro_rules! land {
    ($also:literal) => {
        concat!(
            $also,
            "update task set state = $2, code = $3, detail = $4, started_at = coalesce(started_at, $5), ended_at = $6,
                 timings = $7, undone = $8, output = $9, result = $10, phase = null, phase_since = null, version = version + 1
             where id = $1"
        )
    };
}

const LAND: &str = land!("");
/// What a probe has seen goes to its node in the same statement: both rows are locked for no longer than they have to be.
const LAND_PROBE: &str = land!(
    "with probed as (
         update node set last_probe = $11, last_probe_at = $6, probe_tries = 0, version = version + 1 where id = $12) "
);

async fn write(
    change: &mut Change,
    row: &TaskRow,
    result: &ResultPayload,
    to: TaskState,
    bytes: Vec<u8>,
    seen: Option<health_probe::Output>,
) -> Answer<()> {
    let output: Option<serde_json::Value> = match &result.output {
        Some(raw) => Some(serde_json::from_str(raw.get()).map_err(|_| Code::ResultMalformed)?),
        None => None,
    };
    let at = OffsetDateTime::from(change.at());
    let mut landing = sqlx::query(if seen.is_some() { LAND_PROBE } else { LAND })
        .bind(row.id)
        .bind(to.as_str())
        .bind(result.code.map(Code::as_str))
        .bind(&result.detail)
        .bind(result.started_at.map(OffsetDateTime::from))
        .bind(at)
        .bind(sqlx::types::Json(&result.timings))
        .bind(sqlx::types::Json(&result.undone))
        .bind(output)
        .bind(bytes);
    if let Some(seen) = seen {
        landing = landing.bind(sqlx::types::Json(seen)).bind(row.node_id);
    }
    landing.execute(change.conn()).await?;
    change.detail(json!({
        "type": row.task_type, "outcome": result.outcome, "code": result.code, "journal_seq": result.journal_seq,
    }));
    change.event(
        "task.ended",
        row.id(),
        json!({ "node_id": result.node_id, "type": row.task_type, "state": to, "code": result.code }),
    );
    // A quick task's result can overtake the heartbeat that would have told of its start.
    if row.started_at.is_none() && result.started_at.is_some() {
        change.also("task.start", row.id());
        change.event("task.started", row.id(), json!({ "node_id": result.node_id }));
    }
    ends::wake(change, &row.task_type);
    Ok(())
}

/// What the end of a task means for its node and its slots.
async fn consequences(
    fleet: &Fleet,
    change: &mut Change,
    row: &TaskRow,
    result: &ResultPayload,
    to: TaskState,
) -> Answer<()> {
    let node_id = NodeId::from(row.node_id);
    let Ok(task_type) = row.task_type.parse::<TaskType>() else {
        return Ok(());
    };
    match (task_type, to) {
        (TaskType::HealthProbe, TaskState::Succeeded) => {
            let state = row.node_state.parse().map_err(ApiError::internal)?;
            if !state::waits_for_proof(state) {
                return Ok(());
            }
            let node = locked(change, row).await?;
            state::proved(fleet, change, &node).await
        }
        (TaskType::TopologyDiscover, TaskState::Succeeded) => {
            let output = result
                .output
                .as_ref()
                .map(|raw| serde_json::from_str::<topology_discover::Output>(raw.get()));
            let Some(Ok(output)) = output else {
                return Err(Code::ResultMalformed.into());
            };
            if slot::discovery::landed(change, node_id, &output, row.dispatched_at).await? {
                look_again(fleet, change, node_id).await;
            }
            let node = state::lock(change, node_id).await?;
            state::proved(fleet, change, &node).await
        }
        // Neither made nor taken back: what is left on the host has to be looked at.
        (TaskType::ProvisionUser, TaskState::Failed) if result.code == Some(Code::Stuck) => {
            let node = locked(change, row).await?;
            change.also("node.quarantine", node_id);
            state::quarantine(change, &node, "an account could be neither finished nor taken back").await
        }
        // Something of a tenant may still be there: nobody else gets this node before an operator has looked.
        (TaskType::DeprovisionUser, TaskState::Failed) if result.outcome == Outcome::Failed => {
            let node = locked(change, row).await?;
            change.also("node.quarantine", node_id);
            state::quarantine(change, &node, "a tenant's account could not be proved absent").await?;
            let signed = signed_task(change, row, result).await?;
            machine::landed(change, row, signed.as_ref(), result, to).await
        }
        (TaskType::DeprovisionUser, TaskState::Succeeded) => {
            let signed = signed_task(change, row, result).await?;
            machine::landed(change, row, signed.as_ref(), result, to).await
        }
        // These concern slots, which their proofs speak for; the node goes on.
        (TaskType::VmProvision | TaskType::VmRelease, _) => match signed_task(change, row, result).await? {
            Some(signed) => {
                let node = locked(change, row).await?;
                if slot::landed(change, &node, row, &signed, result, to).await? {
                    look_again(fleet, change, node_id).await;
                }
                Ok(())
            }
            // Somebody has changed our rows: nobody knows what was asked, so nobody gets these slots.
            None => slot::lost(change, node_id, &[row.id]).await,
        },
        (
            TaskType::HealthProbe
            | TaskType::TopologyDiscover
            | TaskType::ProvisionUser
            | TaskType::DeprovisionUser
            | TaskType::VmPower,
            _,
        ) => Ok(()),
    }
}

/// The task's node, as this change has locked it.
async fn locked(change: &mut Change, row: &TaskRow) -> Answer<NodeRow> {
    Ok(nodes::lock(change, row.node_id.into()).await?.ok_or(Code::NotFound)?)
}

/// A node that cannot be asked now is asked before it is ready again.
async fn look_again(fleet: &Fleet, change: &mut Change, node: NodeId) {
    if let Err(error) = enqueue_later_discovery(fleet, change, node).await {
        tracing::warn!(%node, %error, "a node that has to be looked at is not discovered anew");
    }
}

/// The task as the executor has answered it: by the digest that it signed, not by what the row may say by now.
async fn signed_task(change: &mut Change, row: &TaskRow, result: &ResultPayload) -> Answer<Option<Task>> {
    let envelope = store::handed_out(change.conn(), row.id()).await?;
    if envelope.payload_digest() != result.payload_sha256 {
        return Ok(None);
    }
    let Ok(bytes) = envelope.payload_unverified() else {
        return Ok(None);
    };
    let payload: Option<TaskPayload> = dsse::parse_payload(&bytes).ok();
    Ok(payload.and_then(|p| Task::parse(&p.task_type, p.type_version, &p.params).ok()))
}
