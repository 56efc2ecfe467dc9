//! What the end of a task means for the slots it was about. A slot is free again when the executor has signed, for this
//! slot's own disk and functions, that nothing of a tenant is left. A release that was never begun changes nothing: its
//! VM runs on. Everything else is quarantine.

use base::Change;
use base::http::Answer;
use model::dsse::Envelope;
use model::id::{NodeId, OpId};
use model::key::PublicKey;
use model::outcome::{Outcome, ResultPayload};
use model::proof::{ResetProof, WipeProof};
use model::signal::Code;
use model::state::TaskState;
use model::task::{Task, TaskType};
use model::value::Nonce;
use serde_json::json;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::discovery;
use super::state::{self, Clears};
use super::store::{self, SlotRow};
use crate::metrics::ALARMS;
use crate::node::{self, NodeRow};
use crate::task::TaskRow;

/// A task has ended as its executor signed it. Gives true if the host was at fault and has to be looked at.
pub(crate) async fn landed(
    change: &mut Change,
    node: &NodeRow,
    task: &TaskRow,
    signed: &Task,
    result: &ResultPayload,
    to: TaskState,
) -> Answer<bool> {
    let (slots, nonce, task_type) = match signed {
        // A VM that stands: its slots stay its tenant's.
        Task::VmProvision(_) if to == TaskState::Succeeded => return Ok(false),
        Task::VmProvision(params) => (&params.slots, Nonce::of_task(task.id()), TaskType::VmProvision),
        // The tenant keeps what they have until somebody takes it away: whoever wants that asks again.
        Task::VmRelease(_) if never_began(result.outcome) => return Ok(false),
        Task::VmRelease(params) => (&params.slots, params.release_nonce, TaskType::VmRelease),
        Task::HealthProbe(_)
        | Task::TopologyDiscover(_)
        | Task::ProvisionUser(_)
        | Task::DeprovisionUser(_)
        | Task::VmPower(_) => return Ok(false),
    };
    let blamed = result
        .code
        .filter(|code| task_type == TaskType::VmProvision && to == TaskState::Failed && is_of_host(*code));
    let ids: Vec<Uuid> = slots.iter().map(|slot| slot.slot_id.uuid()).collect();
    for slot in store::these(change.conn(), node.id(), &ids).await? {
        let is_provision = task_type == TaskType::VmProvision;
        let own = !is_provision || slot.dirty_op == Some(task.op_id);
        let proved = prove(change, &slot, own, task, result, nonce).await?;
        let good_end = match task_type {
            TaskType::VmRelease => to == TaskState::Succeeded && proved.is_some_and(|proof| proof.kind == "wipe"),
            // Its undo did not come to its end, or the host says that it is another's: a proof about the disk is not all.
            _ => proved.is_some() && !matches!(result.code, Some(Code::Stuck | Code::SlotLeased)),
        };
        match proved {
            // It comes late: the slot is not dirty by it any more, and somebody else may have it.
            _ if !own && (left_nothing(proved, result) || wiped_since(change, &slot, node, task, result).await?) => {}
            // What ends a quarantine is a release that was asked for since; whoever forced this one out asks for it.
            Some(_) if good_end && is_provision && slot.quarantine_no.is_some() => {}
            Some(proof) if good_end => {
                let why = if proof.kind == "wipe" {
                    "wiped, with proof"
                } else {
                    "its disk was never touched"
                };
                state::free(change, &slot, proof, why).await?;
                if let Some(code) = blamed {
                    let detail = result.detail.as_deref().unwrap_or(code.meaning());
                    let why = format!("a provision failed here: {detail}");
                    discovery::blame(change, &slot, code, shortened(&why)).await?;
                }
            }
            _ => {
                let code = result.code.unwrap_or(Code::WipeUnproved);
                let what = if task_type == TaskType::VmRelease {
                    "its release"
                } else {
                    "a provision"
                };
                let reason = format!(
                    "{what} ended {to} without a clean proof: {}",
                    result.detail.as_deref().unwrap_or(code.as_str())
                );
                metrics::counter!(ALARMS, "code" => code.as_str()).increment(1);
                distrust(change, &slot, code, &shortened(&reason)).await?;
            }
        }
    }
    let row = node::store::lock(change, node.id()).await?.ok_or(Code::NotFound)?;
    node::state::emptied(change, &row).await?;
    Ok(blamed.is_some())
}

/// Does a provision's result say itself that nothing of it is there: never begun, nothing written, or wiped?
fn left_nothing(proved: Option<Clears>, result: &ResultPayload) -> bool {
    let untouched = result.proofs.as_ref().is_some_and(|proofs| proofs.disk_untouched);
    let unbegun = never_began(result.outcome) && !result.is_hearsay();
    (proved.is_some() || untouched || unbegun) && !matches!(result.code, Some(Code::Stuck | Code::SlotLeased))
}

/// Was what this task's operation may have left ended by a clean wipe that came after it? A host does one thing at a time
/// with a slot, so what it journalled later it did later; results may overtake each other on their way here.
async fn wiped_since(
    change: &mut Change,
    slot: &SlotRow,
    node: &NodeRow,
    task: &TaskRow,
    result: &ResultPayload,
) -> Answer<bool> {
    let wiped: Option<Vec<u8>> = sqlx::query_scalar(
        "select t.result from slot_dirt d join slot_proof p on p.no = d.ended_by join task t on t.id = p.task_id
         where d.slot_id = $1 and d.op_id = $2 and d.ended_kind = 'wipe' and p.op_id <> $2
           and t.node_id = $3 and t.node_epoch = $4 order by d.no desc limit 1",
    )
    .bind(slot.id)
    .bind(task.op_id)
    .bind(task.node_id)
    .bind(task.node_epoch)
    .fetch_optional(change.conn())
    .await?
    .flatten();
    // As its executor signed it, not as our rows may say by now.
    let signed = wiped.and_then(|bytes| Envelope::parse(&bytes).ok());
    let key = node
        .result_public
        .as_deref()
        .and_then(|key| <[u8; 32]>::try_from(key).ok());
    let (Some(signed), Some(key)) = (signed, key) else {
        return Ok(false);
    };
    let later = ResultPayload::open(&signed, &PublicKey::from_bytes(key));
    Ok(later.is_ok_and(|later| {
        (later.node_id, later.node_epoch) == (result.node_id, result.node_epoch)
            && later.journal_seq > result.journal_seq
    }))
}

/// Has the executor signed that it did nothing at all?
fn never_began(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Refused | Outcome::Expired => true,
        Outcome::Succeeded | Outcome::Failed | Outcome::Cancelled => false,
    }
}

/// Would the next one who gets this slot fail in the same way? An image or a guest may be as bad on any other.
fn is_of_host(code: Code) -> bool {
    match code {
        Code::ImageUnavailable | Code::ImageNotRegular => false,
        Code::DiskGuard => true,
        _ => matches!(code.owner(), "node owner" | "node runtime"),
    }
}

/// Tasks that nobody will ever hear of again, with what they were about: if their node was given one of them, its slots
/// are in a state that nobody knows.
pub(crate) async fn lost(change: &mut Change, node: NodeId, tasks: &[Uuid]) -> Answer<()> {
    let ids: Vec<Uuid> =
        sqlx::query_scalar("select distinct unnest(slots) from task where id = any($1) and fence is not null")
            .bind(tasks)
            .fetch_all(change.conn())
            .await?;
    for slot in store::these(change.conn(), node, &ids).await? {
        if slot.dirty_op.is_some() {
            let reason = "its node was removed or enrolled again in the middle of a task";
            distrust(change, &slot, Code::NodeLost, reason).await?;
        }
    }
    Ok(())
}

async fn distrust(change: &mut Change, slot: &SlotRow, code: Code, reason: &str) -> Answer<()> {
    change
        .also("slot.quarantine", slot.id())
        .detail(json!({ "code": code, "reason": reason }));
    state::quarantine(change, slot, code, reason).await
}

/// A reason is kept for ever: it fits a line.
fn shortened(reason: &str) -> String {
    reason.chars().take(400).collect()
}

/// Keeps what was signed about the slot, and says which of it makes the slot clean. Of a provision that comes late it is
/// kept, but proves nothing of the slot as it is now.
async fn prove(
    change: &mut Change,
    slot: &SlotRow,
    own: bool,
    task: &TaskRow,
    result: &ResultPayload,
    nonce: Nonce,
) -> Answer<Option<Clears>> {
    let (wipes, resets, untouched) = match &result.proofs {
        Some(proofs) => (proofs.wipe.as_slice(), proofs.reset.as_slice(), proofs.disk_untouched),
        None => (&[][..], &[][..], false),
    };
    let devices: Vec<&str> = std::iter::once(slot.pci_address.as_str())
        .chain(slot.fabric_device.as_deref())
        .collect();
    let mut reset_of = Vec::new();
    for proof in resets {
        let address = proof.pci_address.to_string();
        if devices.contains(&address.as_str()) {
            let clean = is_reset(proof);
            insert(
                change,
                slot,
                task,
                &Row {
                    kind: "reset",
                    subject: &address,
                    clean: clean && own,
                    wipe: None,
                    proof: json!(proof),
                },
            )
            .await?;
            reset_of.extend(clean.then_some(address));
        }
    }
    let all_reset = devices
        .iter()
        .all(|device| reset_of.iter().any(|reset| reset == device));
    let mut clears = None;
    for proof in wipes
        .iter()
        .filter(|proof| proof.slot_id == slot.id() && is_of(proof, slot))
    {
        let clean = proof.is_clean() && proof.nonce == nonce;
        let row = Row {
            kind: "wipe",
            subject: proof.serial.as_str(),
            clean: clean && own,
            wipe: Some(proof),
            proof: json!(proof),
        };
        let no = insert(change, slot, task, &row).await?;
        if clean && all_reset {
            clears = Some(Clears {
                no,
                kind: "wipe",
                op: task.op_id.into(),
            });
        }
    }
    // What never began cannot have written; but only this task speaks for its operation if no other was given out, and only
    // a refusal that the executor has journalled keeps it from beginning later.
    let journalled = never_began(result.outcome) && !result.is_hearsay();
    let unbegun = journalled && task.task_type != TaskType::VmRelease.as_str();
    if clears.is_none() && wipes.is_empty() && (untouched || unbegun) && speaks_alone(change, slot, task).await? {
        let proof = json!({ "disk_untouched": untouched, "outcome": result.outcome, "code": result.code });
        let no = insert(
            change,
            slot,
            task,
            &Row {
                kind: "untouched",
                subject: "",
                clean: true,
                wipe: None,
                proof,
            },
        )
        .await?;
        clears = Some(Clears {
            no,
            kind: "untouched",
            op: OpId::from(task.op_id),
        });
    }
    Ok(clears)
}

fn is_of(proof: &WipeProof, slot: &SlotRow) -> bool {
    proof.serial.as_str() == slot.nvme_serial
        && proof.wwn.as_str() == slot.nvme_wwn
        && i64::try_from(proof.size_bytes) == Ok(slot.nvme_size_bytes)
}

fn is_reset(proof: &ResetProof) -> bool {
    proof.rc == 0 && proof.config_readable && proof.power_state == "D0" && proof.driver.as_deref() == Some("vfio-pci")
}

/// Is the slot dirty by this task's operation, of which no other task has begun?
async fn speaks_alone(change: &mut Change, slot: &SlotRow, task: &TaskRow) -> sqlx::Result<bool> {
    if slot.dirty_op != Some(task.op_id) {
        return Ok(false);
    }
    sqlx::query_scalar(
        "select not exists (select from task where op_id = $1 and id <> $2 and fence is not null
                              and (started_at is not null or ended_at is null))",
    )
    .bind(task.op_id)
    .bind(task.id)
    .fetch_one(change.conn())
    .await
}

struct Row<'a> {
    kind: &'static str,
    subject: &'a str,
    clean: bool,
    wipe: Option<&'a WipeProof>,
    proof: serde_json::Value,
}

async fn insert(change: &mut Change, slot: &SlotRow, task: &TaskRow, row: &Row<'_>) -> sqlx::Result<i64> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query_scalar(
        "insert into slot_proof (slot_id, task_id, op_id, kind, subject, clean, disk_serial, disk_wwn, disk_size_bytes,
                                 proof, created_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) returning no",
    )
    .bind(slot.id)
    .bind(task.id)
    .bind(task.op_id)
    .bind(row.kind)
    .bind(row.subject)
    .bind(row.clean)
    .bind(row.wipe.map(|wipe| wipe.serial.as_str()))
    .bind(row.wipe.map(|wipe| wipe.wwn.as_str()))
    .bind(row.wipe.map(|wipe| wipe.size_bytes as i64))
    .bind(Json(&row.proof))
    .bind(at)
    .fetch_one(change.conn())
    .await
}
