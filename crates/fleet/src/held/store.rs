//! Rows of what nodes hold: the newest list of each, as it was signed. An older one cannot replace a newer.

use model::dsse::Envelope;
use model::held::{HeldPayload, Holdings};
use model::id::NodeId;
use model::task::TaskType;
use model::time::Timestamp;
use sqlx::PgPool;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::judge::{Difference, Tenant};

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct HeldRow {
    pub node_id: Uuid,
    pub epoch: i64,
    pub number: i64,
    pub boot_id: String,
    pub at: OffsetDateTime,
    pub received_at: OffsetDateTime,
    pub holds: serde_json::Value,
    pub differences: serde_json::Value,
    pub envelope: Vec<u8>,
}

impl HeldRow {
    pub(super) fn place(&self) -> (u64, u64) {
        (self.epoch.unsigned_abs(), self.number.unsigned_abs())
    }

    /// None where another release wrote another shape.
    pub fn holds(&self) -> Option<Holdings> {
        serde_json::from_value(self.holds.clone()).ok()
    }

    pub(super) fn differences(&self) -> Vec<Difference> {
        serde_json::from_value(self.differences.clone()).unwrap_or_default()
    }
}

pub(super) async fn result_key(pool: &PgPool, node: NodeId) -> sqlx::Result<Option<Vec<u8>>> {
    let key: Option<Option<Vec<u8>>> = sqlx::query_scalar("select result_public from node where id = $1")
        .bind(node.uuid())
        .fetch_optional(pool)
        .await?;
    Ok(key.flatten())
}

pub(super) async fn get(pool: &PgPool, node: NodeId) -> sqlx::Result<Option<HeldRow>> {
    Ok(of_nodes(pool, &[node.uuid()]).await?.pop())
}

pub async fn of_nodes(pool: &PgPool, nodes: &[Uuid]) -> sqlx::Result<Vec<HeldRow>> {
    sqlx::query_as("select * from node_held where node_id = any($1)")
        .bind(nodes)
        .fetch_all(pool)
        .await
}

/// Of whom something may be on the machine itself.
pub(super) async fn tenants(pool: &PgPool, node: NodeId) -> sqlx::Result<Vec<Tenant>> {
    sqlx::query_as(
        "select d.allocation_id,
                exists (select from lease l where l.node_id = d.node_id and l.allocation_id = d.allocation_id
                            and l.slot_id is null and l.ended_at is null)
                and exists (select from task t where t.op_id = d.op_id and t.state = 'succeeded')
                and not exists (select from task t where t.node_id = d.node_id and t.task_type = $2
                                    and t.created_at >= d.since) as settled
         from machine_dirt d where d.node_id = $1 and d.cleaned_at is null",
    )
    .bind(node.uuid())
    .bind(TaskType::DeprovisionUser.as_str())
    .fetch_all(pool)
    .await
}

/// False if a newer one is there.
pub(super) async fn keep(
    pool: &PgPool,
    list: &HeldPayload,
    envelope: &Envelope,
    differences: &[Difference],
    now: Timestamp,
) -> sqlx::Result<bool> {
    let kept = sqlx::query(
        "insert into node_held (node_id, epoch, number, boot_id, at, received_at, holds, differences, envelope)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         on conflict (node_id) do update set epoch = excluded.epoch, number = excluded.number,
             boot_id = excluded.boot_id, at = excluded.at, received_at = excluded.received_at, holds = excluded.holds,
             differences = excluded.differences, envelope = excluded.envelope
         where (node_held.epoch, node_held.number) < (excluded.epoch, excluded.number)",
    )
    .bind(list.node_id.uuid())
    .bind(list.node_epoch as i64)
    .bind(list.number as i64)
    .bind(&list.boot_id)
    .bind(OffsetDateTime::from(list.at))
    .bind(OffsetDateTime::from(now))
    .bind(Json(&list.holds))
    .bind(Json(differences))
    .bind(envelope.to_bytes())
    .execute(pool)
    .await?;
    Ok(kept.rows_affected() == 1)
}
