//! Intents: signed when a request was authorised, stored in the same transaction, and asked again by `enqueue`.

use base::http::{Answer, ApiError};
use base::{Actor, Change, Target};
use model::digest::Sha256;
use model::dsse::Envelope;
use model::id::{AllocationId, IntentId, NodeId, OpId, ProjectId};
use model::intent::{Intent, IntentKind, Wish};
use model::signal::Code;
use model::task::Task;
use serde_json::json;
use time::OffsetDateTime;

use crate::Fleet;

/// For how long the making half of a wish may wait for its workflow.
const LIFE_S: i64 = 3600;

/// What the API has just authorised.
#[derive(Clone, Debug)]
pub struct Authorised {
    pub allocation: AllocationId,
    pub project: ProjectId,
    pub generation: u32,
    pub wish: Wish,
}

/// Signs an intent and stores it with the change that authorised it. The same wish of the same generation again is
/// the same intent; another wish needs another generation, or two wishes would share their operations.
pub async fn sign(fleet: &Fleet, change: &mut Change, authorised: &Authorised) -> Answer<(Intent, Sha256)> {
    let wish = authorised.wish.to_bytes();
    let intent = Intent {
        aud: fleet.app.installation,
        intent_id: IntentId::new(),
        allocation_id: authorised.allocation,
        kind: IntentKind::Create,
        generation: authorised.generation,
        project_id: authorised.project,
        actor_ref: change.actor().reference(),
        wish_sha256: Sha256::of(&wish),
        issued_at: change.at(),
        expires_at: change.at().plus_s(LIFE_S),
    };
    let envelope = intent.sign(&fleet.keyring().intent);
    let sha256 = Sha256::of(&envelope.payload_unverified().map_err(ApiError::from)?);
    let at = OffsetDateTime::from(change.at());
    // Whoever stores one of the same generation at this moment is waited for.
    let stored = sqlx::query(
        "insert into intent (sha256, id, allocation_id, generation, envelope, wish, created_at) values ($1, $2, $3, $4, $5, $6, $7)
         on conflict (allocation_id, generation) do nothing",
    )
    .bind(sha256.as_bytes().as_slice())
    .bind(intent.intent_id.uuid())
    .bind(intent.allocation_id.uuid())
    .bind(intent.generation as i32)
    .bind(envelope.to_bytes())
    .bind(wish)
    .bind(at)
    .execute(change.conn())
    .await?;
    if stored.rows_affected() == 0 {
        let known = of_generation(fleet, change, authorised).await?;
        return match known.0.wish_sha256 == intent.wish_sha256 {
            true => Ok(known),
            false => {
                Err(ApiError::new(Code::StateConflict).message("this generation of the allocation had another wish"))
            }
        };
    }
    change.also("intent.sign", intent.intent_id).detail(json!({
        "allocation": intent.allocation_id, "sha256": sha256, "wish_sha256": intent.wish_sha256,
    }));
    Ok((intent, sha256))
}

/// What was signed for this generation before.
async fn of_generation(fleet: &Fleet, change: &mut Change, authorised: &Authorised) -> Answer<(Intent, Sha256)> {
    let bytes: Vec<u8> = sqlx::query_scalar("select envelope from intent where allocation_id = $1 and generation = $2")
        .bind(authorised.allocation.uuid())
        .bind(authorised.generation as i32)
        .fetch_one(change.conn())
        .await?;
    opened(fleet, &bytes)
}

/// Does this intent allow this task on this node, as this operation? The row is locked, so that a withdrawal and a
/// late worker cannot pass each other.
pub(crate) async fn allows(
    fleet: &Fleet,
    change: &mut Change,
    sha256: Sha256,
    op: OpId,
    task: &Task,
    node: NodeId,
) -> Answer<()> {
    let row: Option<(Vec<u8>, Vec<u8>, Option<OffsetDateTime>)> =
        sqlx::query_as("select envelope, wish, withdrawn_at from intent where sha256 = $1 for update")
            .bind(sha256.as_bytes().as_slice())
            .fetch_optional(change.conn())
            .await?;
    let (envelope, wish, withdrawn) = row.ok_or(Code::IntentMissing)?;
    let (intent, signed) = opened(fleet, &envelope)?;
    if signed != sha256 {
        return Err(Code::IntentInvalid.into());
    }
    if withdrawn.is_some() && !task.task_type().takes_away() {
        return Err(Code::IntentWithdrawn.into());
    }
    let allowed = intent.covers(&wish, task, node, change.at())?;
    if allowed == op {
        Ok(())
    } else {
        Err(Code::IntentMissing.into())
    }
}

/// What was wished for about this allocation, if the API has signed just that. Whoever signs anew what somebody wished
/// before asks here: what only lies in the row may be anybody's.
pub async fn wished(fleet: &Fleet, change: &mut Change, sha256: Sha256, allocation: AllocationId) -> Answer<Wish> {
    let row: Option<(Vec<u8>, Vec<u8>)> = sqlx::query_as("select envelope, wish from intent where sha256 = $1")
        .bind(sha256.as_bytes().as_slice())
        .fetch_optional(change.conn())
        .await?;
    let (envelope, wish) = row.ok_or(Code::IntentMissing)?;
    let (intent, signed) = opened(fleet, &envelope)?;
    if signed != sha256 || intent.allocation_id != allocation {
        return Err(Code::IntentInvalid.into());
    }
    Ok(intent.wish(&wish)?)
}

/// The row may have been written by anybody; only the signature says that the API wrote it. Beside the intent, the digest
/// of what was signed.
pub(crate) fn opened(fleet: &Fleet, envelope: &[u8]) -> Answer<(Intent, Sha256)> {
    let envelope = Envelope::parse(envelope).map_err(|_| Code::IntentInvalid)?;
    let intent = Intent::open(&envelope, &fleet.keyring().intent_public())?;
    let signed = envelope.payload_unverified().map_err(|_| Code::IntentInvalid)?;
    if intent.aud != fleet.app.installation {
        return Err(Code::IntentInvalid.into());
    }
    Ok((intent, Sha256::of(&signed)))
}

/// What was refused because of a row that nobody has signed is written down: somebody writes into the database.
pub async fn refused(
    fleet: &Fleet,
    actor: &Actor,
    action: &'static str,
    target: impl Into<Target>,
    error: ApiError,
) -> ApiError {
    if error.code != Code::IntentInvalid {
        return error;
    }
    match fleet.app.db.refusal(actor, action, target, error.code).await {
        Ok(()) => error,
        Err(unwritten) => unwritten.into(),
    }
}

/// Takes the making half of everything back that was ever wished about this allocation; taking away stays allowed.
pub async fn withdraw(change: &mut Change, allocation: AllocationId) -> Answer<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query("update intent set withdrawn_at = $2 where allocation_id = $1 and withdrawn_at is null")
        .bind(allocation.uuid())
        .bind(at)
        .execute(change.conn())
        .await?;
    Ok(())
}
