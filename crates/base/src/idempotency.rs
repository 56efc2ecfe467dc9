//! The same wish twice is one wish: an answer is kept for a day under the caller's own key, in the transaction of what it
//! tells of. The same key with another body is refused, and so is one whose first request is still being answered.

use http::HeaderMap;
use model::digest::Sha256;
use model::id::UserId;
use model::signal::Code;
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use crate::Change;
use crate::db::Db;
use crate::http::{Answer, ApiError};

pub const HEADER: &str = "idempotency-key";
/// On an answer that was given before.
pub const REPLAYED: &str = "idempotency-replayed";
/// What a key looks like, for those who read documents.
pub(crate) const PATTERN: &str = "^[A-Za-z0-9_-]{1,64}$";
const KEEP_S: i64 = 86_400;
/// Along their age, which is in an index; the rest goes the next time.
pub const PRUNE: &str = "delete from idempotency where ctid = any(array(
    select ctid from idempotency where created_at < $1 order by created_at limit 1000))";

/// One caller's key for one route and one body.
#[derive(Clone, Debug)]
pub struct Key {
    user: UserId,
    route: &'static str,
    key: String,
    body: Sha256,
}

impl Key {
    /// From a request that must have one.
    pub fn required(headers: &HeaderMap, user: UserId, route: &'static str, body: &impl Serialize) -> Answer<Self> {
        let mut values = headers.get_all(HEADER).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(Code::IdempotencyKeyMissing.into());
        };
        let key = value.to_str().map_err(|_| Code::IdempotencyKeyMissing)?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if !(1..=64).contains(&key.len()) || !key.bytes().all(plain) {
            return Err(Code::IdempotencyKeyMissing.into());
        }
        Ok(Self {
            user,
            route,
            key: key.to_owned(),
            body: Sha256::of(&serde_json::to_vec(body).map_err(ApiError::internal)?),
        })
    }

    /// What was answered before, if anything was. From here to the end of the change nobody else uses this key.
    pub async fn look(&self, change: &mut Change) -> Answer<Option<Value>> {
        let name = format!("{}/{}/{}", self.user, self.route, self.key);
        let alone: bool = sqlx::query_scalar("select pg_try_advisory_xact_lock(hashtextextended($1, 1))")
            .bind(name)
            .fetch_one(change.conn())
            .await?;
        if !alone {
            return Err(Code::IdempotencyInFlight.into());
        }
        let old = OffsetDateTime::from(change.at().plus_s(-KEEP_S));
        let row: Option<(Vec<u8>, Value, OffsetDateTime)> = sqlx::query_as(
            "select body_sha256, answer, created_at from idempotency where user_id = $1 and route = $2 and key = $3",
        )
        .bind(self.user.uuid())
        .bind(self.route)
        .bind(&self.key)
        .fetch_optional(change.conn())
        .await?;
        match row {
            None => Ok(None),
            Some((_, _, created_at)) if created_at < old => {
                sqlx::query("delete from idempotency where user_id = $1 and route = $2 and key = $3")
                    .bind(self.user.uuid())
                    .bind(self.route)
                    .bind(&self.key)
                    .execute(change.conn())
                    .await?;
                Ok(None)
            }
            Some((body, answer, _)) if body == self.body.as_bytes() => Ok(Some(answer)),
            Some(_) => Err(Code::IdempotencyKeyReused.into()),
        }
    }

    /// Keeps the answer, or what it takes to give it again.
    pub async fn keep(&self, change: &mut Change, status: u16, answer: &Value) -> sqlx::Result<()> {
        let at = OffsetDateTime::from(change.at());
        sqlx::query(
            "insert into idempotency (user_id, route, key, body_sha256, status, answer, created_at)
             values ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(self.user.uuid())
        .bind(self.route)
        .bind(&self.key)
        .bind(self.body.as_bytes().as_slice())
        .bind(i32::from(status))
        .bind(answer)
        .bind(at)
        .execute(change.conn())
        .await?;
        Ok(())
    }
}

/// Forgets what is older than a day.
pub async fn prune(db: &Db) -> sqlx::Result<u64> {
    let old = OffsetDateTime::from(db.clock().now().plus_s(-KEEP_S));
    let gone = sqlx::query(PRUNE).bind(old);
    Ok(gone.execute(db.bookkeeping()).await?.rows_affected())
}
