//! Rows of projects and their members.

use base::Change;
use base::http::{Answer, ApiError, IfMatch, Page};
use model::id::{ProjectId, UserId};
use model::signal::Code;
use model::state::ProjectRole;
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct ProjectRow {
    pub id: Uuid,
    pub name: String,
    /// Of whoever asks.
    pub role: Option<String>,
    pub created_at: OffsetDateTime,
    pub deleted_at: Option<OffsetDateTime>,
    pub version: i64,
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct MemberRow {
    pub user_id: Uuid,
    pub user_name: String,
    pub role: String,
    pub since: OffsetDateTime,
    pub version: i64,
}

/// A project with its first owner and the quota that everybody begins with.
pub async fn create(change: &mut Change, id: ProjectId, name: &str, owner: UserId) -> Answer<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query(
        "with made as (insert into project (id, name, created_at) values ($1, $2, $3) returning id),
              counted as (insert into quota (project_id) select id from made)
         insert into project_member (project_id, user_id, role, since) select id, $4, 'owner', $3 from made",
    )
    .bind(id.uuid())
    .bind(name)
    .bind(at)
    .bind(owner.uuid())
    .execute(change.conn())
    .await
    .map_err(taken)?;
    Ok(())
}

fn taken(error: sqlx::Error) -> ApiError {
    let taken = error
        .as_database_error()
        .is_some_and(sqlx::error::DatabaseError::is_unique_violation);
    if taken {
        ApiError::new(Code::StateConflict)
            .message("a project of this name exists already")
            .hint("take another name; `gpuaas project list` shows those you may see")
    } else {
        error.into()
    }
}

/// Of one person, or all of them; newest first. Those that have ended are in no list.
pub async fn list(pool: &PgPool, user: UserId, all: bool, page: &Page) -> sqlx::Result<Vec<ProjectRow>> {
    let (at, id) = page.after_parts();
    sqlx::query_as(
        "select p.id, p.name, s.role, p.created_at, p.deleted_at, p.version
         from project p left join project_seat s on s.project_id = p.id and s.user_id = $1
         where p.deleted_at is null and ($2 or s.role is not null) and ($3::timestamptz is null or (p.created_at, p.id) < ($3, $4))
         order by p.created_at desc, p.id desc limit $5",
    )
    .bind(user.uuid())
    .bind(all)
    .bind(at)
    .bind(id)
    .bind(page.fetch())
    .fetch_all(pool)
    .await
}

pub async fn get(from: impl PgExecutor<'_>, id: ProjectId, user: UserId) -> sqlx::Result<Option<ProjectRow>> {
    sqlx::query_as(
        "select p.id, p.name, s.role, p.created_at, p.deleted_at, p.version
         from project p left join project_seat s on s.project_id = p.id and s.user_id = $2 where p.id = $1",
    )
    .bind(id.uuid())
    .bind(user.uuid())
    .fetch_optional(from)
    .await
}

/// Nobody has a seat in it from now on. Its quota is locked, and nothing of it is in use.
pub async fn end(change: &mut Change, id: ProjectId) -> Answer<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query("update project set deleted_at = $2, version = version + 1 where id = $1")
        .bind(id.uuid())
        .bind(at)
        .execute(change.conn())
        .await?;
    Ok(())
}

/// The projects in which somebody has a seat; two are enough to know that there is no only one.
pub async fn first_two(pool: &PgPool, user: UserId) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar("select project_id from project_seat where user_id = $1 order by project_id limit 2")
        .bind(user.uuid())
        .fetch_all(pool)
        .await
}

/// Newest first.
pub async fn members(pool: &PgPool, project: ProjectId, page: &Page) -> sqlx::Result<Vec<MemberRow>> {
    let (at, id) = page.after_parts();
    sqlx::query_as(
        "select m.user_id, u.name as user_name, m.role, m.since, m.version from project_member m join app_user u on u.id = m.user_id
         where m.project_id = $1 and ($2::timestamptz is null or (m.since, m.user_id) < ($2, $3))
         order by m.since desc, m.user_id desc limit $4",
    )
    .bind(project.uuid())
    .bind(at)
    .bind(id)
    .bind(page.fetch())
    .fetch_all(pool)
    .await
}

pub async fn member(from: impl PgExecutor<'_>, project: ProjectId, user: UserId) -> sqlx::Result<MemberRow> {
    sqlx::query_as(
        "select m.user_id, u.name as user_name, m.role, m.since, m.version from project_member m join app_user u on u.id = m.user_id
         where m.project_id = $1 and m.user_id = $2",
    )
    .bind(project.uuid())
    .bind(user.uuid())
    .fetch_one(from)
    .await
}

/// Somebody who exists and is let in, by id or by name. What has the form of an id is never a name: whoever chose another's
/// id for their name would be taken for them.
pub async fn existing_user(from: impl PgExecutor<'_>, typed: &str) -> sqlx::Result<Option<UserId>> {
    let id: Option<UserId> = typed.parse().ok();
    let found: Option<Uuid> = sqlx::query_scalar(
        "select id from app_user where (case when $1::uuid is null then name = $2 else id = $1 end) and disabled_at is null",
    )
    .bind(id.map(|id| id.uuid()))
    .bind(typed)
    .fetch_optional(from)
    .await?;
    Ok(found.map(Into::into))
}

/// In it with this role from now on.
pub async fn seat(change: &mut Change, project: ProjectId, user: UserId, role: ProjectRole) -> Answer<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query(
        "insert into project_member (project_id, user_id, role, since) values ($1, $2, $3, $4)
         on conflict (project_id, user_id) do update set role = excluded.role, since = excluded.since, version = project_member.version + 1
         where project_member.role <> excluded.role",
    )
    .bind(project.uuid())
    .bind(user.uuid())
    .bind(role.as_str())
    .bind(at)
    .execute(change.conn())
    .await
    .map_err(last_owner)?;
    Ok(())
}

/// False if nobody of that id is in it.
pub async fn unseat(change: &mut Change, project: ProjectId, user: UserId, meant: IfMatch) -> Answer<bool> {
    let present: Option<i64> =
        sqlx::query_scalar("select version from project_member where project_id = $1 and user_id = $2 for update")
            .bind(project.uuid())
            .bind(user.uuid())
            .fetch_optional(change.conn())
            .await?;
    let Some(present) = present else { return Ok(false) };
    meant.holds(present)?;
    let gone = sqlx::query("delete from project_member where project_id = $1 and user_id = $2")
        .bind(project.uuid())
        .bind(user.uuid())
        .execute(change.conn())
        .await
        .map_err(last_owner)?;
    Ok(gone.rows_affected() == 1)
}

/// The database says which of its rules it was; nobody reads its sentence.
fn last_owner(error: sqlx::Error) -> ApiError {
    match error.as_database_error().and_then(|error| error.constraint()) {
        Some("project_owner") => Code::LastOwner.into(),
        _ => error.into(),
    }
}
