//! Whole machines. A lease of the node itself keeps everybody else off; dirt says that something of a tenant may be there.
//! Dirt is written with the first task that could make any, and ends only by a signed result that says that nothing of
//! the tenant was found, or because no node was ever given that task. Both are the database's promises, too.

use base::Change;
use base::http::{Answer, ApiError};
use model::digest::Sha256;
use model::id::{AllocationId, NodeId, OpId, TaskId, derive_op};
use model::intent::Wish;
use model::outcome::ResultPayload;
use model::signal::Code;
use model::state::{NodeMode, NodeState, TaskState};
use model::task::{Task, TaskType, deprovision_user};
use serde_json::json;
use sqlx::{PgConnection, PgExecutor};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::Fleet;
use crate::node::{self, NodeRow};
use crate::slot::lease;
use crate::task::{Ask, Cover, TaskRow, enqueue};

/// What a machine has to have, as its last probe found it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub gpu_model: &'a str,
    pub gpu_count: i32,
}

/// What an allocation has of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    Nothing,
    /// Its lease, and no node was given a task.
    Promised,
    Given,
}

/// Reserves a machine that nobody has and nothing is left on. One that somebody else is busy with is waited for only when
/// there is no other: whoever asks at the same time finds the same first ones.
pub async fn reserve(change: &mut Change, allocation: AllocationId, wanted: &Wanted<'_>) -> Answer<NodeRow> {
    lease::may_find_nothing(change).await?;
    let mut tried = Vec::new();
    for _ in 0..lease::LOOKS {
        let mut nodes = candidates(change, wanted, &tried).await?;
        if nodes.is_empty() {
            break;
        }
        tried.extend_from_slice(&nodes);
        while let Some(row) = node::store::lock_first(change, &nodes).await? {
            if takes(change, allocation, &row).await? {
                return Ok(row);
            }
            nodes.retain(|id| *id != row.id().uuid());
            lease::let_go(change).await?;
        }
        for id in nodes.into_iter().map(NodeId::from) {
            if let Some(row) = node::store::lock(change, id).await?
                && takes(change, allocation, &row).await?
            {
                return Ok(row);
            }
            lease::let_go(change).await?;
        }
    }
    Err(ApiError::new(Code::SlotUnavailable).message("no ready machine of this kind is free"))
}

async fn candidates(change: &mut Change, wanted: &Wanted<'_>, but: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar(
        "select n.id from node n where n.mode = 'machine' and n.state = 'ready' and n.id <> all($3) and machine_fits(n, $1, $2)
             order by n.id limit 20",
    )
    .bind(wanted.gpu_model)
    .bind(wanted.gpu_count)
    .bind(but)
    .fetch_all(change.conn())
    .await
}

/// A node that is locked; false if it is somebody's by now.
async fn takes(change: &mut Change, allocation: AllocationId, row: &NodeRow) -> Answer<bool> {
    let id = row.id();
    let ready = row.state()? == NodeState::Ready && row.mode == NodeMode::Machine.as_str();
    if !ready || lease::open_on(change, id).await? > 0 || dirty(change.conn(), id).await? {
        return Ok(false);
    }
    sqlx::query("insert into lease (id, node_id, allocation_id, since) values ($1, $2, $3, $4)")
        .bind(Uuid::now_v7())
        .bind(id.uuid())
        .bind(allocation.uuid())
        .bind(OffsetDateTime::from(change.at()))
        .execute(change.conn())
        .await?;
    change
        .also("node.reserve", id)
        .detail(json!({ "allocation": allocation }));
    Ok(true)
}

async fn dirty(conn: &mut PgConnection, node: NodeId) -> sqlx::Result<bool> {
    sqlx::query_scalar("select exists (select from machine_dirt where node_id = $1 and cleaned_at is null)")
        .bind(node.uuid())
        .fetch_one(conn)
        .await
}

/// Before the task that gives the tenant an account is queued: from here on the machine counts as used. False if it did
/// before.
pub async fn begin(change: &mut Change, allocation: AllocationId, node: NodeId, op: OpId) -> Answer<bool> {
    node::store::lock(change, node).await?.ok_or(Code::NotFound)?;
    let theirs: bool = sqlx::query_scalar(
        "select exists (select from lease where node_id = $1 and allocation_id = $2 and slot_id is null and ended_at is null)",
    )
    .bind(node.uuid())
    .bind(allocation.uuid())
    .fetch_one(change.conn())
    .await?;
    if !theirs {
        return Err(ApiError::new(Code::StateConflict).message("the machine is not reserved for this allocation"));
    }
    let written = sqlx::query(
        "insert into machine_dirt (op_id, node_id, allocation_id, since) values ($1, $2, $3, $4)
         on conflict (op_id) do nothing",
    )
    .bind(op.uuid())
    .bind(node.uuid())
    .bind(allocation.uuid())
    .bind(OffsetDateTime::from(change.at()))
    .execute(change.conn())
    .await?;
    Ok(written.rows_affected() == 1)
}

pub async fn holds(from: impl PgExecutor<'_>, allocation: AllocationId) -> sqlx::Result<Holds> {
    let (leased, given): (bool, bool) = sqlx::query_as(
        "select exists (select from lease where allocation_id = $1 and slot_id is null and ended_at is null),
                exists (select from machine_dirt d join task t on t.op_id = d.op_id
                        where d.allocation_id = $1 and d.cleaned_at is null and (t.fence is not null or t.ended_at is null))",
    )
    .bind(allocation.uuid())
    .fetch_one(from)
    .await?;
    Ok(match (leased, given) {
        (false, _) => Holds::Nothing,
        (true, false) => Holds::Promised,
        (true, true) => Holds::Given,
    })
}

/// Gives back what was promised and never begun.
pub async fn unreserve(change: &mut Change, allocation: AllocationId) -> Answer<()> {
    if holds(change.conn(), allocation).await? != Holds::Promised {
        return Ok(());
    }
    clean(change, allocation, None).await?;
    end(change, allocation, "nothing was begun").await
}

/// Takes it from its allocation at once. Unless nothing was begun, nobody else gets it before its tenant's account has
/// been proved absent.
pub async fn abandon(change: &mut Change, allocation: AllocationId, reason: &str) -> Answer<()> {
    unreserve(change, allocation).await?;
    let node: Option<Uuid> = sqlx::query_scalar(
        "select node_id from lease where allocation_id = $1 and slot_id is null and ended_at is null",
    )
    .bind(allocation.uuid())
    .fetch_optional(change.conn())
    .await?;
    let Some(node) = node.map(NodeId::from) else {
        return Ok(());
    };
    let row = node::state::lock(change, node).await?;
    change.also("node.quarantine", node).detail(json!({ "reason": reason }));
    node::state::quarantine(change, &row, reason).await?;
    end(change, allocation, reason).await
}

/// The task that takes a tenant's account away has ended as the executor signed it.
pub(crate) async fn landed(
    change: &mut Change,
    task: &TaskRow,
    signed: Option<&Task>,
    result: &ResultPayload,
    to: TaskState,
) -> Answer<()> {
    let Some(Task::DeprovisionUser(params)) = signed else {
        return Ok(());
    };
    if to == TaskState::Succeeded {
        clean(change, params.allocation_id, Some(task)).await?;
        return end(change, params.allocation_id, "nothing of it is left, with proof").await;
    }
    // Refused is not failed: it is asked again.
    if result.outcome == model::outcome::Outcome::Failed {
        return end(change, params.allocation_id, "its account could not be proved absent").await;
    }
    Ok(())
}

async fn clean(change: &mut Change, allocation: AllocationId, by: Option<&TaskRow>) -> Answer<()> {
    sqlx::query(
        "with cleaned as (update machine_dirt set cleaned_at = $2, cleaned_by = $3
                          where allocation_id = $1 and cleaned_at is null returning node_id)
         update node set left_over_since = null, version = version + 1
         where id in (select node_id from cleaned) and left_over_since is not null",
    )
    .bind(allocation.uuid())
    .bind(OffsetDateTime::from(change.at()))
    .bind(by.map(|task| task.id))
    .execute(change.conn())
    .await?;
    Ok(())
}

async fn end(change: &mut Change, allocation: AllocationId, reason: &str) -> Answer<()> {
    let node: Option<Uuid> = sqlx::query_scalar(
        "update lease set ended_at = $2, end_reason = $3
         where allocation_id = $1 and slot_id is null and ended_at is null returning node_id",
    )
    .bind(allocation.uuid())
    .bind(OffsetDateTime::from(change.at()))
    .bind(reason)
    .fetch_optional(change.conn())
    .await?;
    if let Some(node) = node.map(NodeId::from) {
        change
            .also("node.unreserve", node)
            .detail(json!({ "allocation": allocation, "reason": reason }));
        sqlx::query(
            "update node set left_over_since = $2, version = version + 1
             where id = $1 and exists (select from machine_dirt where node_id = $1 and cleaned_at is null)",
        )
        .bind(node.uuid())
        .bind(OffsetDateTime::from(change.at()))
        .execute(change.conn())
        .await?;
        let row = node::store::lock(change, node).await?.ok_or(Code::NotFound)?;
        node::state::emptied(change, &row).await?;
    }
    Ok(())
}

/// The account of whoever had the machine last is taken away once more, under the intent that made it.
pub(crate) async fn clean_again(fleet: &Fleet, change: &mut Change, row: &NodeRow) -> Answer<TaskId> {
    let last: Option<(Uuid, Vec<u8>, Vec<u8>)> = sqlx::query_as(
        "select d.allocation_id, i.sha256, i.wish from machine_dirt d
         join intent i on i.allocation_id = d.allocation_id and i.generation = 1
         where d.node_id = $1 and d.cleaned_at is null",
    )
    .bind(row.id)
    .fetch_optional(change.conn())
    .await?;
    let Some((allocation, sha256, wish)) = last.filter(|_| row.left_over_since.is_some()) else {
        return Err(ApiError::new(Code::StateConflict)
            .message("no tenant has left anything on this machine")
            .hint("there is nothing to clean"));
    };
    let makes: bool = sqlx::query_scalar(
        "select exists (select from task where node_id = $1 and task_type = $2 and ended_at is null)",
    )
    .bind(row.id)
    .bind(TaskType::ProvisionUser.as_str())
    .fetch_one(change.conn())
    .await?;
    if makes {
        let what = "an account is still being made there; it is taken away once that has ended";
        return Err(ApiError::new(Code::StateConflict)
            .message(what)
            .hint(format!("gpuaas task list --node {}", row.name)));
    }
    let allocation = AllocationId::from(allocation);
    let Ok(Wish::Machine { username, uid, .. }) = serde_json::from_slice(&wish) else {
        return Err(Code::IntentInvalid.into());
    };
    let task = Task::DeprovisionUser(deprovision_user::Params {
        allocation_id: allocation,
        username,
        uid,
        remove_home: true,
    });
    let sha256: [u8; 32] = sha256.as_slice().try_into().map_err(ApiError::internal)?;
    let cover = Cover::Intent {
        sha256: Sha256::from_bytes(sha256),
        op: derive_op(allocation, TaskType::DeprovisionUser.as_str(), 1),
    };
    let node = row.id();
    enqueue(fleet, change, &Ask { node, task, cover }).await
}
