//! Rows of issued certificates.

use base::Change;
use model::id::NodeId;
use model::node_api::CertificateKind;
use model::time::Timestamp;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use super::Issued;

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct CertificateRow {
    pub serial: String,
    pub kind: String,
    pub node_id: Option<uuid::Uuid>,
    pub role: Option<String>,
    pub epoch: Option<i64>,
    pub generation: i64,
    pub not_before: OffsetDateTime,
    pub not_after: OffsetDateTime,
    pub first_used_at: Option<OffsetDateTime>,
    pub revoked_at: Option<OffsetDateTime>,
    pub created_at: OffsetDateTime,
}

/// Where a certificate of a node belongs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub node: NodeId,
    pub epoch: u64,
    pub kind: CertificateKind,
    pub generation: u64,
}

pub async fn insert(change: &mut Change, issued: &Issued, place: Place) -> sqlx::Result<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query(
        "insert into certificate (serial, kind, node_id, epoch, generation, not_before, not_after, created_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(&issued.serial)
    .bind(kind_word(place.kind))
    .bind(place.node.uuid())
    .bind(place.epoch as i64)
    .bind(place.generation as i64)
    .bind(OffsetDateTime::from(issued.not_before))
    .bind(OffsetDateTime::from(issued.not_after))
    .bind(at)
    .execute(change.conn())
    .await?;
    Ok(())
}

/// A certificate of one of our own processes.
pub async fn insert_role(change: &mut Change, issued: &Issued, role: &str) -> sqlx::Result<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query(
        "insert into certificate (serial, kind, role, not_before, not_after, created_at) values ($1, 'role', $2, $3, $4, $5)",
    )
    .bind(&issued.serial)
    .bind(role)
    .bind(OffsetDateTime::from(issued.not_before))
    .bind(OffsetDateTime::from(issued.not_after))
    .bind(at)
    .execute(change.conn())
    .await?;
    Ok(())
}

pub async fn by_serial(from: impl sqlx::PgExecutor<'_>, serial: &str) -> sqlx::Result<Option<CertificateRow>> {
    sqlx::query_as(
        "select serial, kind, node_id, role, epoch, generation, not_before, not_after, first_used_at, revoked_at, created_at
         from certificate where serial = $1",
    )
    .bind(serial)
    .fetch_optional(from)
    .await
}

/// Certificates of a kind that still stand.
pub async fn live_count(
    conn: &mut PgConnection,
    node: NodeId,
    epoch: u64,
    kind: CertificateKind,
    now: Timestamp,
) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "select count(*) from certificate
         where node_id = $1 and epoch = $2 and kind = $3 and revoked_at is null and not_after > $4",
    )
    .bind(node.uuid())
    .bind(epoch as i64)
    .bind(kind_word(kind))
    .bind(OffsetDateTime::from(now))
    .fetch_one(conn)
    .await
}

/// The highest generation ever given to a node in this epoch.
pub async fn generation(conn: &mut PgConnection, node: NodeId, epoch: u64, kind: CertificateKind) -> sqlx::Result<u64> {
    let highest: Option<i64> =
        sqlx::query_scalar("select max(generation) from certificate where node_id = $1 and epoch = $2 and kind = $3")
            .bind(node.uuid())
            .bind(epoch as i64)
            .bind(kind_word(kind))
            .fetch_one(conn)
            .await?;
    Ok(highest.unwrap_or(0) as u64)
}

/// Ends every certificate of a node, but for those of the epoch to keep.
pub async fn revoke_all(
    conn: &mut PgConnection,
    node: NodeId,
    keep_epoch: Option<u64>,
    why: &str,
    at: Timestamp,
) -> sqlx::Result<u64> {
    let done = sqlx::query(
        "update certificate set revoked_at = $3, revoked_why = $4
         where node_id = $1 and revoked_at is null and ($2::bigint is null or epoch <> $2)",
    )
    .bind(node.uuid())
    .bind(keep_epoch.map(|epoch| epoch as i64))
    .bind(OffsetDateTime::from(at))
    .bind(why)
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Ends one certificate of a node. False if there is no such live one.
pub async fn revoke(
    conn: &mut PgConnection,
    node: NodeId,
    serial: &str,
    why: &str,
    at: Timestamp,
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "update certificate set revoked_at = $3, revoked_why = $4
         where node_id = $1 and serial = $2 and revoked_at is null",
    )
    .bind(node.uuid())
    .bind(serial)
    .bind(OffsetDateTime::from(at))
    .bind(why)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Newest first; a node collects one a day. Two of one moment are told apart by their serials.
pub async fn of_node(
    pool: &PgPool,
    node: NodeId,
    after: Option<(OffsetDateTime, String)>,
    limit: i64,
) -> sqlx::Result<Vec<CertificateRow>> {
    let (at, serial) = after.unzip();
    sqlx::query_as(
        "select serial, kind, node_id, role, epoch, generation, not_before, not_after, first_used_at, revoked_at, created_at
         from certificate where node_id = $1 and ($2::timestamptz is null or (created_at, serial) < ($2, $3))
         order by created_at desc, serial desc limit $4",
    )
    .bind(node.uuid())
    .bind(at)
    .bind(serial)
    .bind(limit)
    .fetch_all(pool)
    .await
}

/// Remembers that serials were presented, in one statement.
pub async fn mark_used(pool: &PgPool, serials: &[String], at: Timestamp) -> sqlx::Result<()> {
    sqlx::query("update certificate set first_used_at = $2 where serial = any($1) and first_used_at is null")
        .bind(serials)
        .bind(OffsetDateTime::from(at))
        .execute(pool)
        .await?;
    Ok(())
}

/// False if the token was used before.
pub async fn renewal_token_take(change: &mut Change, jti: &str, expires_at: Timestamp) -> sqlx::Result<bool> {
    let now = OffsetDateTime::from(change.at());
    sqlx::query("delete from renewal_token where expires_at < $1 - interval '1 hour'")
        .bind(now)
        .execute(change.conn())
        .await?;
    let done = sqlx::query("insert into renewal_token (jti, expires_at) values ($1, $2) on conflict do nothing")
        .bind(jti)
        .bind(OffsetDateTime::from(expires_at))
        .execute(change.conn())
        .await?;
    Ok(done.rows_affected() == 1)
}

pub const fn kind_word(kind: CertificateKind) -> &'static str {
    match kind {
        CertificateKind::Working => "working",
        CertificateKind::Device => "device",
    }
}
