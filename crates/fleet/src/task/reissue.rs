//! Issuing again what a revoked key had signed: the same operation, the next issue, under the key that signs now. The
//! rules of `enqueue` are asked anew. A row alone is no reason: its envelope must carry the old key's signature, and
//! what changes a host must still be covered by a signed intent, so that whoever writes rows gets nothing signed here.

use base::Change;
use base::http::Answer;
use base::tx::Actor;
use model::dsse;
use model::envelope::{MAX_START_S, TASK_TYPE, TaskPayload};
use model::id::{NodeId, TaskId};
use model::key::KeyId;
use model::signal::Code;
use model::state::TaskState;
use model::task::Task;
use model::trust::{KeyStatus, Manifest};
use time::OffsetDateTime;
use uuid::Uuid;

use super::ends::{self, Overdue};
use super::enqueue::{Again, Cover, issue_again};
use super::store;
use super::{Ask, TaskRow};
use crate::Fleet;
use crate::node::state;
use crate::trust::Keyring;

/// What was signed before a revocation can be in the queue for this long; replicas may learn of it a little later.
const LOOK_FOR_S: i64 = MAX_START_S + 300;

/// Ends what is queued under a revoked key and issues it again. Asks the database only after a revocation.
pub async fn queued(fleet: &Fleet) -> Answer<usize> {
    let revoked = lately_revoked(fleet);
    if revoked.is_empty() {
        return Ok(0);
    }
    let nodes: Vec<Uuid> =
        sqlx::query_scalar("select distinct node_id from task where state = 'queued' and keyid = any($1)")
            .bind(&revoked)
            .fetch_all(fleet.app.db.read())
            .await?;
    let mut count = 0;
    for node in nodes {
        count += queued_of(fleet, node.into(), &revoked).await?;
    }
    Ok(count)
}

fn lately_revoked(fleet: &Fleet) -> Vec<String> {
    let (keyring, now) = (fleet.keyring(), fleet.app.clock.now());
    let keys = keyring.manifest().keys.iter();
    keys.filter(|key| key.status == KeyStatus::Revoked && now.since_ms(key.since) < LOOK_FOR_S * 1000)
        .map(|key| key.keyid.to_string())
        .collect()
}

async fn queued_of(fleet: &Fleet, node: NodeId, revoked: &[String]) -> Answer<usize> {
    let actor = Actor::system("trust-loop");
    let mut change = fleet.app.db.change(&actor, "task.key_revoked", node).await?;
    state::lock(&mut change, node).await?;
    let rows = store::queued_under(&mut change, node, revoked).await?;
    for row in &rows {
        change.also("task.cancel", row.id());
        let at = OffsetDateTime::from(change.at());
        sqlx::query(
            "update task set state = 'cancelled', code = $2, ended_at = $3, version = version + 1 where id = $1",
        )
        .bind(row.id)
        .bind(Code::KeyRevoked.as_str())
        .bind(at)
        .execute(change.conn())
        .await?;
        let ended = Overdue {
            id: row.id,
            node_id: row.node_id,
            task_type: row.task_type.clone(),
        };
        ends::ended(&mut change, &ended, TaskState::Cancelled, Code::KeyRevoked);
        again(fleet, &mut change, row).await?;
    }
    if rows.is_empty() {
        // Another replica was faster.
        change.rollback().await?;
        return Ok(0);
    }
    change.commit().await?;
    Ok(rows.len())
}

/// Was this task's key revoked, as far as we know now? Looks into the database before it says no: the node may have
/// heard of it from another replica.
pub(super) async fn key_is_revoked(fleet: &Fleet, change: &mut Change, row: &TaskRow) -> Answer<bool> {
    let Ok(keyid) = row.keyid.parse::<KeyId>() else {
        return Ok(false);
    };
    if fleet.keyring().manifest().revokes(&keyid) {
        return Ok(true);
    }
    let newest: Keyring = crate::trust::newest(fleet, change.conn())
        .await
        .map_err(base::http::ApiError::internal)?;
    let revokes = newest.manifest().revokes(&keyid);
    if revokes {
        // What is issued again must be signed by the key that took over.
        fleet.set_keyring(newest);
        fleet.dispatch.ring_all();
    }
    Ok(revokes)
}

/// The same operation again, after this task of it has ended in the same change. None: a rule does not allow it any
/// more, or somebody wanted it stopped, or something later was asked for.
pub(super) async fn again(fleet: &Fleet, change: &mut Change, row: &TaskRow) -> Answer<Option<TaskId>> {
    if row.cancel_at.is_some() || store::overtaken(change.conn(), row).await? {
        return Ok(None);
    }
    let keyring = fleet.keyring();
    let Some(payload) = signed_payload(
        &store::handed_out(change.conn(), row.id()).await?,
        row,
        keyring.manifest(),
    ) else {
        return Ok(None);
    };
    let Ok(task) = Task::parse(&payload.task_type, payload.type_version, &payload.params) else {
        return Ok(None);
    };
    let cover = match payload.intent_sha256 {
        Some(sha256) => Cover::Intent {
            sha256,
            op: payload.op_id,
        },
        None => Cover::Observes,
    };
    let ask = Ask {
        node: payload.node_id,
        task,
        cover,
    };
    let asked = Again {
        op: payload.op_id,
        actor_ref: payload.actor_ref,
        correlation_id: payload.correlation_id,
    };
    let issued = match issue_again(fleet, change, &ask, asked).await {
        Ok(issued) => issued,
        // A rule says no; what ended stays ended, and whoever waits for the operation sees why.
        Err(error) if error.status().is_client_error() => {
            tracing::warn!(task_id = %row.id(), code = %error.code, "not issued again after its key was revoked");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    sqlx::query("update task set detail = $2 where id = $1")
        .bind(row.id)
        .bind(format!("issued again as {issued}"))
        .execute(change.conn())
        .await?;
    Ok(Some(issued))
}

/// The row's payload, if the key that the row names has signed it for this task.
pub(super) fn signed_payload(envelope: &dsse::Envelope, row: &TaskRow, manifest: &Manifest) -> Option<TaskPayload> {
    let find = |keyid: &KeyId| {
        let listed = manifest.key(keyid).filter(|_| keyid.to_string() == row.keyid);
        listed.map(|key| key.public).ok_or(Code::KeyUnknown)
    };
    let bytes = envelope.open(TASK_TYPE, find).ok()?;
    let payload: TaskPayload = dsse::parse_payload(&bytes).ok()?;
    let this = payload.task_id == row.id()
        && payload.op_id.uuid() == row.op_id
        && payload.node_id.uuid() == row.node_id
        && payload.node_epoch == row.node_epoch as u64;
    this.then_some(payload)
}
