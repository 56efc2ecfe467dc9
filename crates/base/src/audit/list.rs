//! Reading the audit: newest first, by page, narrowed by who, what and when.

use model::api;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use sqlx::FromRow;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::db::Db;
use crate::http::{ApiError, CursorKey, Page};

const LIST: &str = "audit";

/// Only rows that match all that is given.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditFilter {
    pub actor: Option<String>,
    pub action: Option<String>,
    pub target: Option<String>,
    /// `ok`, `refused` or `failed`.
    pub outcome: Option<String>,
    pub correlation_id: Option<Uuid>,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// At most this many items: 50 unless told, 200 at most.
    pub limit: Option<u32>,
}

#[derive(FromRow)]
struct EntryRow {
    id: Uuid,
    at: OffsetDateTime,
    actor_kind: String,
    actor_id: String,
    action: String,
    target_kind: String,
    target_id: String,
    outcome: String,
    code: Option<String>,
    correlation_id: Uuid,
    details: Value,
    pos: Option<i64>,
}

pub async fn list(db: &Db, filter: &AuditFilter, key: &CursorKey) -> Result<api::Page<api::AuditRow>, ApiError> {
    let page = crate::http::page(filter.after.as_deref(), filter.limit, LIST, key)?;
    let rows = read(db, filter, &page).await?;
    Ok(page.answer(rows, LIST, key, |row| (row.at.into(), row.id), show))
}

async fn read(db: &Db, filter: &AuditFilter, page: &Page) -> sqlx::Result<Vec<EntryRow>> {
    let (at, id) = page.after_parts();
    sqlx::query_as(
        "select a.id, a.at, a.actor_kind, a.actor_id, a.action, a.target_kind, a.target_id, a.outcome, a.code,
                a.correlation_id, a.details, s.pos
         from audit a left join audit_seal s on s.audit_id = a.id
         where ($1::timestamptz is null or (a.at, a.id) < ($1, $2))
           and ($3::text is null or a.actor_id = $3) and ($4::text is null or a.action = $4)
           and ($5::text is null or a.target_id = $5) and ($6::text is null or a.outcome = $6)
           and ($7::uuid is null or a.correlation_id = $7)
         order by a.at desc, a.id desc limit $8",
    )
    .bind(at)
    .bind(id)
    .bind(&filter.actor)
    .bind(&filter.action)
    .bind(&filter.target)
    .bind(&filter.outcome)
    .bind(filter.correlation_id)
    .bind(page.fetch())
    .fetch_all(db.read())
    .await
}

fn show(row: EntryRow) -> api::AuditRow {
    api::AuditRow {
        id: row.id.into(),
        pos: row.pos,
        at: row.at.into(),
        actor_kind: row.actor_kind,
        actor_id: row.actor_id,
        action: row.action,
        target_kind: row.target_kind,
        target_id: row.target_id,
        outcome: row.outcome,
        code: row.code,
        correlation_id: row.correlation_id.to_string(),
        details: row.details,
    }
}
