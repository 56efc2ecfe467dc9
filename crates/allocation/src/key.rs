//! The SSH keys of people: what their machines let in. Each person sees and changes only their own.

use axum::Json;
use axum::extract::State;
use base::auth::{Principal, Scope};
use base::http::{Access, Answer, ApiError, Body, IfMatch, Params, Route, Routes};
use fleet::Fleet;
use http::StatusCode;
use model::api::{KeyCreate, KeyView, Page};
use model::id::{KeyId, UserId};
use model::signal::Code;
use model::value::SshKey;
use serde::Deserialize;
use sqlx::PgExecutor;
use time::OffsetDateTime;
use uuid::Uuid;

const OWN: Access = Access::Scopes(&[Scope::Project]);
/// As many as one VM takes.
const MOST: i64 = 32;
/// There is no way to change a key, only to store another one.
const VERSION: i64 = 1;

pub fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::get("/v1/keys", OWN, list)
            .summary("One's own SSH keys")
            .answers::<Page<KeyView>>(),
        Route::post("/v1/keys", OWN, add)
            .summary("Store an SSH key")
            .takes::<KeyCreate>()
            .answers_with::<KeyView>(StatusCode::CREATED)
            .fails(&[Code::StateConflict]),
        Route::delete("/v1/keys/{id}", OWN, remove)
            .summary("Forget an SSH key; what was made with it keeps it")
            .answers_nothing(),
    ])
}

#[derive(Deserialize)]
struct PathId {
    id: KeyId,
}

async fn rows(from: impl PgExecutor<'_>, user: UserId) -> Answer<Vec<KeyView>> {
    let rows: Vec<(Uuid, String, String, OffsetDateTime)> = sqlx::query_as(
        "select id, name, public_key, created_at from ssh_key where user_id = $1 order by created_at desc, id desc",
    )
    .bind(user.uuid())
    .fetch_all(from)
    .await?;
    let view = |(id, name, key, at): (Uuid, String, String, OffsetDateTime)| {
        Ok(KeyView {
            id: id.into(),
            name,
            public_key: key.parse().map_err(ApiError::internal)?,
            created_at: at.into(),
            version: VERSION,
        })
    };
    rows.into_iter().map(view).collect()
}

/// All keys of a person, for a machine that they ask for without naming any.
pub(crate) async fn of(from: impl PgExecutor<'_>, user: UserId) -> Answer<Vec<SshKey>> {
    Ok(rows(from, user).await?.into_iter().map(|key| key.public_key).collect())
}

async fn list(State(fleet): State<Fleet>, principal: Principal) -> Answer<Json<Page<KeyView>>> {
    let items = rows(fleet.app.db.read(), principal.user_id).await?;
    Ok(Json(Page { items, next: None }))
}

async fn add(
    State(fleet): State<Fleet>,
    principal: Principal,
    Body(body): Body<KeyCreate>,
) -> Answer<(StatusCode, Json<KeyView>)> {
    let printable = (1..=64).contains(&body.name.chars().count()) && !body.name.chars().any(char::is_control);
    if !printable {
        return Err(ApiError::field("name", "1 to 64 printable characters"));
    }
    let id = KeyId::new();
    let mut change = fleet.app.db.change(&principal.actor(), "key.add", id).await?;
    let made = sqlx::query(
        "insert into ssh_key (id, user_id, name, public_key, created_at)
         select $1, $2, $3, $4, $5 where (select count(*) from ssh_key where user_id = $2) < $6
         on conflict (user_id, name) do nothing",
    )
    .bind(id.uuid())
    .bind(principal.user_id.uuid())
    .bind(&body.name)
    .bind(body.public_key.to_string())
    .bind(OffsetDateTime::from(change.at()))
    .bind(MOST)
    .execute(change.conn())
    .await?;
    if made.rows_affected() == 0 {
        let what = format!("you have a key of this name, or {MOST} keys already");
        return Err(ApiError::new(Code::StateConflict)
            .message(what)
            .hint("`gpuaas key list`, then `gpuaas key remove`"));
    }
    let created_at = change.at();
    change.commit().await?;
    let view = KeyView {
        id,
        name: body.name,
        public_key: body.public_key,
        created_at,
        version: VERSION,
    };
    Ok((StatusCode::CREATED, Json(view)))
}

async fn remove(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    meant: IfMatch,
) -> Answer<StatusCode> {
    let mut change = fleet.app.db.change(&principal.actor(), "key.remove", id).await?;
    let gone = sqlx::query("delete from ssh_key where id = $1 and user_id = $2")
        .bind(id.uuid())
        .bind(principal.user_id.uuid())
        .execute(change.conn())
        .await?;
    if gone.rows_affected() == 0 {
        return Err(Code::NotFound.into());
    }
    meant.holds(VERSION)?;
    change.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
