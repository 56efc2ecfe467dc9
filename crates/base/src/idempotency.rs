//! The same wish twice is one wish: an answer is kept for a day under the caller's own key, in the transaction of what it
//! tells of. The same key with another body is refused, and so is one whose first request is still being answered.

use http::HeaderMap;
use model::digest::Sha256;
use model::id::UserId;
use model::signal::Code;
use model::time::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sqlx::{FromRow, PgConnection};
use time::OffsetDateTime;

use crate::Change;
use crate::db::Db;
use crate::http::{Answer, ApiError};

mod once;
pub(crate) use once::{Decided, Once};

pub const HEADER: &str = "idempotency-key";
/// On an answer that was given before.
pub const REPLAYED: &str = "idempotency-replayed";
/// What a key looks like, for those who read documents.
pub(crate) const PATTERN: &str = "^[A-Za-z0-9_-]{1,64}$";
const KEEP_S: i64 = 86_400;
/// Along their age, which is in an index; the rest goes the next time.
pub const PRUNE: &str = "delete from idempotency where ctid = any(array(
    select ctid from idempotency where created_at < $1 order by created_at limit 1000))";

/// The key of a request, if it has one.
pub(crate) fn given(headers: &HeaderMap) -> Answer<Option<String>> {
    let mut values = headers.get_all(HEADER).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value,
        (Some(_), Some(_)) => return Err(Code::IdempotencyKeyMissing.into()),
    };
    let key = value.to_str().map_err(|_| Code::IdempotencyKeyMissing)?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !(1..=64).contains(&key.len()) || !key.bytes().all(plain) {
        return Err(Code::IdempotencyKeyMissing.into());
    }
    Ok(Some(key.to_owned()))
}

/// One caller's key for one route.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    user: UserId,
    route: String,
    key: String,
}

/// What was kept under it.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct Found {
    #[sqlx(rename = "body_sha256")]
    body: Vec<u8>,
    status: i32,
    answer: Value,
    created_at: OffsetDateTime,
}

impl Name {
    pub(crate) fn new(user: UserId, route: String, key: String) -> Self {
        Self { user, route, key }
    }

    /// From here to the end of the change nobody else uses this key, or somebody else does.
    async fn look(&self, change: &mut Change) -> sqlx::Result<Result<Option<Found>, Code>> {
        let name = format!("{}/{}/{}", self.user, self.route, self.key);
        let alone: bool = sqlx::query_scalar("select pg_try_advisory_xact_lock(hashtextextended($1, 1))")
            .bind(name)
            .fetch_one(change.conn())
            .await?;
        if !alone {
            return Ok(Err(Code::IdempotencyInFlight));
        }
        let old = OffsetDateTime::from(change.at().plus_s(-KEEP_S));
        let found: Option<Found> = sqlx::query_as(
            "select body_sha256, status, answer, created_at from idempotency where user_id = $1 and route = $2 and key = $3",
        )
        .bind(self.user.uuid())
        .bind(&self.route)
        .bind(&self.key)
        .fetch_optional(change.conn())
        .await?;
        if found.as_ref().is_some_and(|found| found.created_at < old) {
            self.forget(change.conn()).await?;
            return Ok(Ok(None));
        }
        Ok(Ok(found))
    }

    async fn forget(&self, conn: &mut PgConnection) -> sqlx::Result<()> {
        sqlx::query("delete from idempotency where user_id = $1 and route = $2 and key = $3")
            .bind(self.user.uuid())
            .bind(&self.route)
            .bind(&self.key)
            .execute(conn)
            .await?;
        Ok(())
    }

    async fn put(
        &self,
        conn: &mut PgConnection,
        body: Sha256,
        status: u16,
        answer: &Value,
        at: Timestamp,
    ) -> sqlx::Result<()> {
        sqlx::query(
            "insert into idempotency (user_id, route, key, body_sha256, status, answer, created_at)
             values ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(self.user.uuid())
        .bind(&self.route)
        .bind(&self.key)
        .bind(body.as_bytes().as_slice())
        .bind(i32::from(status))
        .bind(answer)
        .bind(OffsetDateTime::from(at))
        .execute(conn)
        .await?;
        Ok(())
    }
}

/// One caller's key for one route and one body, for handlers that demand one and make the answer again themselves.
#[derive(Clone, Debug)]
pub struct Key {
    name: Name,
    body: Sha256,
}

impl Key {
    /// From a request that must have one.
    pub fn required(headers: &HeaderMap, user: UserId, route: &'static str, body: &impl Serialize) -> Answer<Self> {
        let key = given(headers)?.ok_or(Code::IdempotencyKeyMissing)?;
        Ok(Self {
            name: Name::new(user, route.to_owned(), key),
            body: Sha256::of(&serde_json::to_vec(body).map_err(ApiError::internal)?),
        })
    }

    /// What was answered before, if anything was. From here to the end of the change nobody else uses this key.
    pub async fn look(&self, change: &mut Change) -> Answer<Option<Value>> {
        match self.name.look(change).await?? {
            None => Ok(None),
            Some(found) if found.body == self.body.as_bytes() => Ok(Some(found.answer)),
            Some(_) => Err(Code::IdempotencyKeyReused.into()),
        }
    }

    /// Keeps the answer, or what it takes to give it again.
    pub async fn keep(&self, change: &mut Change, status: u16, answer: &Value) -> sqlx::Result<()> {
        let at = change.at();
        self.name.put(change.conn(), self.body, status, answer, at).await
    }
}

/// Forgets what is older than a day.
pub async fn prune(db: &Db) -> sqlx::Result<u64> {
    let old = OffsetDateTime::from(db.clock().now().plus_s(-KEEP_S));
    let gone = sqlx::query(PRUNE).bind(old);
    Ok(gone.execute(db.bookkeeping()).await?.rows_affected())
}
