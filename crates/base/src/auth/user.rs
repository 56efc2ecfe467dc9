//! People on the platform's side: a name and the roles they hold. Disabled, never deleted: the audit names them.

use model::id::UserId;
use model::signal::Code;
use sqlx::FromRow;
use time::OffsetDateTime;
use uuid::Uuid;

use super::role::{Scope, words_of};
use crate::db::Db;
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
}

pub async fn user_create(db: &Db, actor: &Actor, name: &str, roles: &[Scope]) -> Result<UserId, ApiError> {
    let id = UserId::new();
    let mut change = db.change(actor, "user.create", id).await?;
    insert(&mut change, id, name, roles).await?;
    change.commit().await?;
    Ok(id)
}

pub(super) async fn insert(change: &mut Change, id: UserId, name: &str, roles: &[Scope]) -> Result<(), ApiError> {
    if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
        return Err(ApiError::field(
            "name",
            "must be 1 to 128 bytes long, without control characters",
        ));
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
        ApiError::new(Code::StateConflict).message("a user of this name exists already")
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

/// All tokens of a disabled user stop working with the next request.
pub async fn user_disable(db: &Db, actor: &Actor, id: UserId) -> Result<(), ApiError> {
    let mut change = db.change(actor, "user.disable", id).await?;
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
        "select id, name, platform_roles, created_at, disabled_at, version from app_user
         where $1::timestamptz is null or (created_at, id) < ($1, $2)
         order by created_at desc, id desc limit $3",
    )
    .bind(at)
    .bind(id)
    .bind(page.fetch())
    .fetch_all(db.read())
    .await
}
