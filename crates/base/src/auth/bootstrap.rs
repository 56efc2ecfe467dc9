//! The first administrator, made by somebody who can already run programs on the server. It happens once: as soon as
//! any user exists, it refuses, and the next administrator is made by the first.

use model::id::UserId;
use model::signal::Code;
use uuid::Uuid;

use super::role::Scope;
use super::token::{self, NewToken, Wish};
use super::user;
use crate::db::{Db, Lock};
use crate::http::ApiError;
use crate::tx::Actor;

/// A new token for the administrator of this name, who is made if there is none: for whoever stands at the server and
/// has lost theirs. Not for a user who is no administrator.
pub async fn admin_token(db: &Db, name: &str) -> Result<NewToken, ApiError> {
    let actor = Actor::system("admin-token");
    let found: Option<(Uuid, Vec<String>)> =
        sqlx::query_as("select id, platform_roles from app_user where name = $1 and disabled_at is null")
            .bind(name)
            .fetch_optional(db.read())
            .await?;
    let id = match found {
        None => user::user_create(db, &actor, name, &[Scope::Admin]).await?,
        Some((id, roles)) if roles.iter().any(|role| role == Scope::Admin.as_str()) => id.into(),
        Some(_) => return Err(ApiError::new(Code::Forbidden).message(format!("{name} is no administrator"))),
    };
    token::token_create(db, &actor, id, "from the server", &[Scope::Admin], LIFE_S).await
}

/// Long enough to set the house up, short enough not to be forgotten.
const LIFE_S: i64 = 7 * 86_400;

pub async fn bootstrap_admin(db: &Db, name: &str) -> Result<NewToken, ApiError> {
    let id = UserId::new();
    let mut change = db
        .change(&Actor::system("admin-bootstrap"), "user.bootstrap", id)
        .await?;
    // Two bootstraps at once: the second waits here and then sees the first one's user.
    sqlx::query("select pg_advisory_xact_lock($1)")
        .bind(Lock::Bootstrap.key())
        .execute(change.conn())
        .await?;
    let taken: bool = sqlx::query_scalar("select exists (select from app_user)")
        .fetch_one(change.conn())
        .await?;
    if taken {
        return Err(ApiError::new(Code::StateConflict)
            .message("this installation has users already; bootstrap makes only the first")
            .hint("ask an administrator for a token"));
    }
    user::insert(&mut change, id, name, &[Scope::Admin]).await?;
    change.also("token.create", id);
    let token = token::insert(
        &mut change,
        &Wish {
            user: id,
            name: "bootstrap",
            scopes: &[Scope::Admin],
            life_s: LIFE_S,
            confined: None,
        },
    )
    .await?;
    change.commit().await?;
    Ok(token)
}
