//! People on the platform's side: a name and the roles they hold. Disabled, never deleted: the audit names them.

use model::id::UserId;
use model::signal::Code;
use sqlx::FromRow;
use time::OffsetDateTime;
use uuid::Uuid;

use super::role::{Scope, words_of};
use crate::db::{Db, Lock};
use crate::http::{ApiError, Page};
use crate::tx::{Actor, Change};

#[derive(Clone, Debug, FromRow)]
pub struct UserRow {
    pub id: Uuid,
    pub name: String,
    pub platform_roles: Vec<String>,
    pub created_at: OffsetDateTime,
    pub disabled_at: Option<OffsetDateTime>,
    pub version: i64,
    /// As the identity provider says it, if one knows them.
    pub email: Option<String>,
    pub issuer: Option<String>,
}

pub async fn user_create(db: &Db, actor: &Actor, name: &str, roles: &[Scope]) -> Result<UserId, ApiError> {
    let id = UserId::new();
    let mut change = db.change(actor, "user.create", id).await?;
    insert(&mut change, id, name, roles).await?;
    change.commit().await?;
    Ok(id)
}

/// A name that nobody takes for an id. Where an id is meant, a name is never looked at; this keeps people from doubting it.
pub(super) fn is_a_name(text: &str) -> bool {
    text.parse::<UserId>().is_err()
}

pub(super) async fn insert(change: &mut Change, id: UserId, name: &str, roles: &[Scope]) -> Result<(), ApiError> {
    if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
        return Err(ApiError::field(
            "name",
            "must be 1 to 128 bytes long, without control characters",
        ));
    }
    if !is_a_name(name) {
        return Err(ApiError::field("name", "must not be an id"));
    }
    let at = OffsetDateTime::from(change.at());
    sqlx::query("insert into app_user (id, name, platform_roles, created_at) values ($1, $2, $3, $4)")
        .bind(id.uuid())
        .bind(name)
        .bind(words_of(roles))
        .bind(at)
        .execute(change.conn())
        .await
        .map_err(taken_name)?;
    change.detail(serde_json::json!({ "name": name, "platform_roles": words_of(roles) }));
    Ok(())
}

fn taken_name(error: sqlx::Error) -> ApiError {
    let taken = error
        .as_database_error()
        .is_some_and(sqlx::error::DatabaseError::is_unique_violation);
    if taken {
        ApiError::new(Code::StateConflict)
            .message("a user of this name exists already")
            .hint("take another name; `gpuaas user list` shows those there are")
    } else {
        error.into()
    }
}

pub async fn user_set_roles(db: &Db, actor: &Actor, id: UserId, roles: &[Scope]) -> Result<(), ApiError> {
    let mut change = db.change(actor, "user.set_roles", id).await?;
    change.detail(serde_json::json!({ "platform_roles": words_of(roles) }));
    let done = sqlx::query("update app_user set platform_roles = $2, version = version + 1 where id = $1")
        .bind(id.uuid())
        .bind(words_of(roles))
        .execute(change.conn())
        .await?;
    if done.rows_affected() == 0 {
        return Err(Code::NotFound.into());
    }
    Ok(change.commit().await?)
}

/// Grants one platform role, or takes it away. Where a claim of the identity provider decides, it decides.
pub async fn user_change_role(
    db: &Db,
    actor: &Actor,
    id: UserId,
    role: Scope,
    granted: bool,
    by_claim: bool,
) -> Result<(), ApiError> {
    let action = if granted { "user.grant" } else { "user.revoke" };
    let mut change = db.change(actor, action, id).await?;
    change.detail(serde_json::json!({ "platform_role": role.as_str() }));
    if role == Scope::Project {
        return Err(ApiError::field(
            "role",
            "everybody may be in projects; this is no platform role",
        ));
    }
    if role == Scope::Admin && !granted {
        another_admin(&mut change, id).await?;
    }
    let found: Option<bool> = sqlx::query_scalar(
        "select exists (select from user_identity where user_id = u.id) from app_user u where u.id = $1 for update",
    )
    .bind(id.uuid())
    .fetch_optional(change.conn())
    .await?;
    if found.ok_or(Code::NotFound)? && by_claim {
        return Err(ApiError::new(Code::StateConflict)
            .message("the identity provider's claim decides this person's platform roles")
            .hint("change their groups there; see oidc_role_claim and oidc_role_map"));
    }
    sqlx::query(
        "update app_user set version = version + 1, platform_roles = case when $3
             then array_append(array_remove(platform_roles, $2), $2) else array_remove(platform_roles, $2) end
         where id = $1",
    )
    .bind(id.uuid())
    .bind(role.as_str())
    .bind(granted)
    .execute(change.conn())
    .await?;
    Ok(change.commit().await?)
}

/// Somebody has to be left who can let others in. One after the other: two administrators who take it from each other at
/// once would each see the other stay.
async fn another_admin(change: &mut Change, id: UserId) -> Result<(), ApiError> {
    sqlx::query("select pg_advisory_xact_lock($1)")
        .bind(Lock::Bootstrap.key())
        .execute(change.conn())
        .await?;
    let last: bool = sqlx::query_scalar(
        "select coalesce((select disabled_at is null and $2 = any(platform_roles) from app_user where id = $1), false)
            and not exists (select from app_user where id <> $1 and disabled_at is null and $2 = any(platform_roles))",
    )
    .bind(id.uuid())
    .bind(Scope::Admin.as_str())
    .fetch_one(change.conn())
    .await?;
    if last {
        return Err(ApiError::new(Code::StateConflict)
            .message("this is the last administrator: nobody could let anybody in any more")
            .hint("make another one first: `gpuaas user grant NAME admin`"));
    }
    Ok(())
}

/// Lets somebody disabled in again. Tokens that were not revoked work again too.
pub async fn user_enable(db: &Db, actor: &Actor, id: UserId) -> Result<(), ApiError> {
    let mut change = db.change(actor, "user.enable", id).await?;
    let done = sqlx::query("update app_user set disabled_at = null, version = version + 1 where id = $1");
    if done.bind(id.uuid()).execute(change.conn()).await?.rows_affected() == 0 {
        return Err(Code::NotFound.into());
    }
    Ok(change.commit().await?)
}

/// All tokens and sessions of a disabled user stop working with the next request.
pub async fn user_disable(db: &Db, actor: &Actor, id: UserId) -> Result<(), ApiError> {
    let mut change = db.change(actor, "user.disable", id).await?;
    another_admin(&mut change, id).await?;
    let at = OffsetDateTime::from(change.at());
    let done =
        sqlx::query("update app_user set disabled_at = coalesce(disabled_at, $2), version = version + 1 where id = $1")
            .bind(id.uuid())
            .bind(at)
            .execute(change.conn())
            .await?;
    if done.rows_affected() == 0 {
        return Err(Code::NotFound.into());
    }
    Ok(change.commit().await?)
}

pub async fn user_list(db: &Db, page: &Page) -> sqlx::Result<Vec<UserRow>> {
    let (at, id) = page.after_parts();
    sqlx::query_as(
        "select u.id, u.name, u.platform_roles, u.created_at, u.disabled_at, u.version, i.email, i.issuer
         from app_user u left join lateral
              (select email, issuer from user_identity where user_id = u.id order by created_at limit 1) i on true
         where $1::timestamptz is null or (u.created_at, u.id) < ($1, $2)
         order by u.created_at desc, u.id desc limit $3",
    )
    .bind(at)
    .bind(id)
    .bind(page.fetch())
    .fetch_all(db.read())
    .await
}
