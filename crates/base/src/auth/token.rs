//! Tokens: `gpuaas_` and 256 random bits. The secret is shown once; we keep its SHA-256, which is enough because the
//! secret has no pattern to guess.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;
use model::digest::Sha256;
use model::id::{ProjectId, TokenId, UserId};
use model::signal::Code;
use model::time::Timestamp;
use sqlx::FromRow;
use subtle::ConstantTimeEq;
use time::OffsetDateTime;
use uuid::Uuid;

use super::Confined;
use super::role::{Scope, words_of};
use crate::db::Db;
use crate::http::{ApiError, Page};
use crate::tx::Actor;

const PREFIX: &str = "gpuaas_";
/// Nobody remembers a token they made three years ago.
const LIFE_MOST_S: i64 = 366 * 86_400;
/// Writing it on every request would make a read a write.
const USED_EVERY: time::Duration = time::Duration::minutes(1);

/// The secret of a token. It prints itself only when asked by name.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret([u8; 32]);

impl TokenSecret {
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// The text that its owner keeps.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&self.0))
    }

    pub(crate) fn sha256(&self) -> Sha256 {
        Sha256::of(self.reveal().as_bytes())
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

impl FromStr for TokenSecret {
    type Err = Code;
    fn from_str(text: &str) -> Result<Self, Code> {
        let body = text.strip_prefix(PREFIX).ok_or(Code::TokenInvalid)?;
        let bytes = BASE64URL_NOPAD
            .decode(body.as_bytes())
            .map_err(|_| Code::TokenInvalid)?;
        bytes.try_into().map(Self).map_err(|_| Code::TokenInvalid)
    }
}

#[derive(Clone, Debug, FromRow)]
pub struct TokenRow {
    pub id: Uuid,
    pub user_id: Uuid,
    pub user_name: String,
    pub user_roles: Vec<String>,
    pub user_disabled_at: Option<OffsetDateTime>,
    pub name: String,
    pub sha256: Vec<u8>,
    pub scopes: Vec<String>,
    pub expires_at: OffsetDateTime,
    pub created_at: OffsetDateTime,
    pub last_used_at: Option<OffsetDateTime>,
    pub revoked_at: Option<OffsetDateTime>,
    pub project_id: Option<Uuid>,
    pub project_role: Option<String>,
}

/// A token just made: the only time its secret is seen.
#[derive(Clone, Debug)]
pub struct NewToken {
    pub id: TokenId,
    pub secret: TokenSecret,
    pub expires_at: Timestamp,
}

/// A token of a project ends with it.
pub async fn token_by_secret(db: &Db, secret: &TokenSecret) -> sqlx::Result<Option<TokenRow>> {
    let digest = secret.sha256();
    let row: Option<TokenRow> = sqlx::query_as(
        "select t.id, t.user_id, u.name as user_name, u.platform_roles as user_roles, u.disabled_at as user_disabled_at,
                t.name, t.sha256, t.scopes, t.expires_at, t.created_at, t.last_used_at,
                coalesce(t.revoked_at, p.deleted_at) as revoked_at, t.project_id, t.project_role
         from api_token t join app_user u on u.id = t.user_id left join project p on p.id = t.project_id where t.sha256 = $1",
    )
    .bind(digest.as_bytes().as_slice())
    .fetch_optional(db.read())
    .await?;
    // The index has compared already, in a time that tells of the digest only; this says it once more in constant time.
    Ok(row.filter(|row| bool::from(row.sha256.as_slice().ct_eq(digest.as_bytes()))))
}

/// What a new token is for.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    pub user: UserId,
    pub name: &'a str,
    pub scopes: &'a [Scope],
    pub life_s: i64,
    pub confined: Option<Confined>,
}

/// Makes a token for `user`. Scopes that the user does not hold are allowed and do nothing: see `effective`.
pub async fn token_create(
    db: &Db,
    actor: &Actor,
    user: UserId,
    name: &str,
    scopes: &[Scope],
    life_s: i64,
) -> Result<NewToken, ApiError> {
    let wish = Wish {
        user,
        name,
        scopes,
        life_s,
        confined: None,
    };
    token_make(db, actor, &wish).await
}

pub async fn token_make(db: &Db, actor: &Actor, wish: &Wish<'_>) -> Result<NewToken, ApiError> {
    let mut change = match wish.confined {
        Some(confined) => db.change(actor, "token.create", confined.project).await?,
        None => db.change(actor, "token.create", wish.user).await?,
    };
    let token = insert(&mut change, wish).await?;
    change.commit().await?;
    Ok(token)
}

/// The same inside a change that does more.
pub(super) async fn insert(change: &mut crate::tx::Change, wish: &Wish<'_>) -> Result<NewToken, ApiError> {
    if wish.name.is_empty() || wish.name.len() > 128 {
        return Err(ApiError::field("name", "must be 1 to 128 bytes long"));
    }
    if wish.scopes.is_empty() {
        return Err(ApiError::field("scopes", "must name at least one scope"));
    }
    if !(60..=LIFE_MOST_S).contains(&wish.life_s) {
        return Err(ApiError::field(
            "expires_in_s",
            format!("must be between 60 and {LIFE_MOST_S} seconds"),
        ));
    }
    let at = change.at();
    let token = NewToken {
        id: TokenId::new(),
        secret: TokenSecret::random(),
        expires_at: at.plus_s(wish.life_s),
    };
    sqlx::query(
        "insert into api_token (id, user_id, name, sha256, scopes, expires_at, created_at, project_id, project_role)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(token.id.uuid())
    .bind(wish.user.uuid())
    .bind(wish.name)
    .bind(token.secret.sha256().as_bytes().as_slice())
    .bind(words_of(wish.scopes))
    .bind(OffsetDateTime::from(token.expires_at))
    .bind(OffsetDateTime::from(at))
    .bind(wish.confined.map(|confined| confined.project.uuid()))
    .bind(wish.confined.map(|confined| confined.role.as_str()))
    .execute(change.conn())
    .await
    .map_err(missing_user)?;
    change.detail(serde_json::json!({
        "token_id": token.id, "name": wish.name, "scopes": words_of(wish.scopes), "expires_at": token.expires_at,
        "project_role": wish.confined.map(|confined| confined.role.as_str()),
    }));
    Ok(token)
}

fn missing_user(error: sqlx::Error) -> ApiError {
    let missing = error
        .as_database_error()
        .is_some_and(sqlx::error::DatabaseError::is_foreign_key_violation);
    if missing { Code::NotFound.into() } else { error.into() }
}

/// Whose tokens are meant.
#[derive(Clone, Copy, Debug)]
pub enum Whose {
    Everybodys,
    Of(UserId),
    OfProject(ProjectId),
}

impl Whose {
    fn binds(self) -> (Option<Uuid>, Option<Uuid>) {
        match self {
            Self::Everybodys => (None, None),
            Self::Of(user) => (Some(user.uuid()), None),
            Self::OfProject(project) => (None, Some(project.uuid())),
        }
    }
}

pub async fn token_list(db: &Db, whose: Whose, page: &Page) -> sqlx::Result<Vec<TokenRow>> {
    let (at, id) = page.after_parts();
    let (user, project) = whose.binds();
    sqlx::query_as(
        "select t.id, t.user_id, u.name as user_name, u.platform_roles as user_roles, u.disabled_at as user_disabled_at,
                t.name, t.sha256, t.scopes, t.expires_at, t.created_at, t.last_used_at,
                coalesce(t.revoked_at, p.deleted_at) as revoked_at, t.project_id, t.project_role
         from api_token t join app_user u on u.id = t.user_id left join project p on p.id = t.project_id
         where ($1::timestamptz is null or (t.created_at, t.id) < ($1, $2))
           and ($4::uuid is null or t.user_id = $4) and ($5::uuid is null or t.project_id = $5)
         order by t.created_at desc, t.id desc limit $3",
    )
    .bind(at)
    .bind(id)
    .bind(page.fetch())
    .bind(user)
    .bind(project)
    .fetch_all(db.read())
    .await
}

/// From the next request on it opens nothing. Revoking twice is revoking once. Another's token is not there.
pub async fn token_revoke(db: &Db, actor: &Actor, whose: Whose, id: TokenId) -> Result<(), ApiError> {
    let mut change = db.change(actor, "token.revoke", id).await?;
    let at = OffsetDateTime::from(change.at());
    let (user, project) = whose.binds();
    let done = sqlx::query(
        "update api_token set revoked_at = coalesce(revoked_at, $2)
         where id = $1 and ($3::uuid is null or user_id = $3) and ($4::uuid is null or project_id = $4)",
    );
    let done = done.bind(id.uuid()).bind(at).bind(user).bind(project);
    if done.execute(change.conn()).await?.rows_affected() == 0 {
        return Err(Code::NotFound.into());
    }
    change.commit().await?;
    Ok(())
}

pub(super) async fn mark_used(db: &Db, row: &TokenRow, now: OffsetDateTime) -> sqlx::Result<()> {
    if row.last_used_at.is_some_and(|at| now - at < USED_EVERY) {
        return Ok(());
    }
    sqlx::query("update api_token set last_used_at = $2 where id = $1 and (last_used_at is null or last_used_at < $2)")
        .bind(row.id)
        .bind(now)
        .execute(db.bookkeeping())
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_only_on_purpose() {
        let secret = TokenSecret::random();
        let text = secret.reveal();
        assert_eq!(text.len(), PREFIX.len() + 43);
        assert_eq!(text.parse(), Ok(secret.clone()));
        assert!(!format!("{secret:?}").contains(&text[7..20]));
        for bad in ["", "gpuaas_", "gpuaas_AAAA", &text[7..], &format!("{text}A")] {
            assert!(bad.parse::<TokenSecret>().is_err(), "{bad}");
        }
    }
}
