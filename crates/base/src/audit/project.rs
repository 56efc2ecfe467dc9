//! The audit of one project, for those who own it: who did what to it, to its allocations and to its tokens. Whose a row
//! is, the database knows. Of the platform behind it nothing is told: not which node, loop or process it was, nor where
//! the row stands in the chain of all; and of the details only what is listed here.

use model::api;
use model::id::ProjectId;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use sqlx::FromRow;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::db::Db;
use crate::http::{ApiError, CursorKey, page};
use crate::tx::ActorKind;

const LIST: &str = "project_audit";

/// Looked at for one page at most: what a filter leaves out could be all that there is.
const LOOKED_AT: i64 = 2000;

/// Along an index of its own, from the newest on or from where the last page ended, whatever the values are.
pub const OF_PROJECT: &str =
    "select id, at, actor_kind, actor_id, action, target_kind, target_id, outcome, code, correlation_id, details
     from (select * from audit
           where project_id = $1 and (at, id) < (coalesce($2::timestamptz, 'infinity'),
                                                 coalesce($3::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
           order by at desc, id desc limit $10) as looked
     where ($4::text is null or (actor_id = $4 and actor_kind in ('user', 'token')))
       and ($5::text is null or action = $5) and ($6::text is null or target_id = $6)
       and ($7::text is null or outcome = $7) and ($8::uuid is null or correlation_id = $8)
     order by at desc, id desc limit $9";

/// The last row that such a look has come to, if there may be more behind it.
const REACHED: &str = "select at, id from audit
     where project_id = $1 and (at, id) < (coalesce($2::timestamptz, 'infinity'),
                                           coalesce($3::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
     order by at desc, id desc limit 1 offset $4 - 1";

/// Which details of an action are the project's own. What stands nowhere here is told to none of its people.
const DETAILS: &[(&str, &[&str])] = &[
    ("project.create", &["name", "owner"]),
    ("project.delete", &["name"]),
    ("project.member_add", &["user", "role"]),
    ("project.member_remove", &["user"]),
    (
        "quota.set",
        &[
            "slots",
            "slots_per_sku",
            "allocations",
            "terminals",
            "max_ttl_hours",
            "reset",
        ],
    ),
    ("token.create", &["token_id", "name", "expires_at", "project_role"]),
    ("allocation.release", &["reason"]),
    ("route.call", &["route"]),
    ("allocation.force_release", &["reason"]),
    ("allocation.extend", &["ttl_s"]),
];

/// Only rows that match all that is given.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectAuditFilter {
    /// A person, or a token.
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
struct Row {
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
}

pub async fn list_of_project(
    db: &Db,
    project: ProjectId,
    filter: &ProjectAuditFilter,
    key: &CursorKey,
) -> Result<api::Page<api::ProjectAuditRow>, ApiError> {
    let page = page(filter.after.as_deref(), filter.limit, LIST, key)?;
    let (at, id) = page.after_parts();
    let rows: Vec<Row> = sqlx::query_as(OF_PROJECT)
        .bind(project.uuid())
        .bind(at)
        .bind(id)
        .bind(&filter.actor)
        .bind(&filter.action)
        .bind(&filter.target)
        .bind(&filter.outcome)
        .bind(filter.correlation_id)
        .bind(page.fetch())
        .bind(LOOKED_AT)
        .fetch_all(db.read())
        .await?;
    let short = rows.len() <= page.limit as usize;
    let mut answer = page.answer(rows, LIST, key, |row| (row.at.into(), row.id), show);
    if short {
        let reached: Option<(OffsetDateTime, Uuid)> = sqlx::query_as(REACHED)
            .bind(project.uuid())
            .bind(at)
            .bind(id)
            .bind(LOOKED_AT)
            .fetch_optional(db.read())
            .await?;
        answer.next = reached.map(|(at, id)| key.seal(LIST, at.into(), id));
    }
    Ok(answer)
}

fn show(row: Row) -> api::ProjectAuditRow {
    let person = [ActorKind::User, ActorKind::Token]
        .iter()
        .any(|kind| kind.as_str() == row.actor_kind);
    api::ProjectAuditRow {
        id: row.id.into(),
        at: row.at.into(),
        actor_kind: row.actor_kind,
        actor_id: person.then_some(row.actor_id),
        details: told(&row.action, row.details),
        action: row.action,
        target_kind: row.target_kind,
        target_id: row.target_id,
        outcome: row.outcome,
        code: row.code,
        correlation_id: row.correlation_id.to_string(),
    }
}

/// What of these details is the project's own.
fn told(action: &str, mut details: Value) -> Value {
    let own = DETAILS.iter().find(|(name, _)| *name == action);
    let own = own.map_or(&[][..], |(_, fields)| *fields);
    if let Value::Object(fields) = &mut details {
        fields.retain(|name, _| own.contains(&name.as_str()));
    }
    details
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_listed_details_are_told() {
        let details = json!({ "reason": "over", "node": "rack1-03" });
        assert_eq!(told("allocation.release", details.clone()), json!({ "reason": "over" }));
        assert_eq!(told("allocation.ask", details), json!({}));
    }
}
