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
    /// Its successor is in use; from then on it does not count.
    pub ends_at: Option<OffsetDateTime>,
    pub created_at: OffsetDateTime,
}

impl CertificateRow {
    pub fn overtaken(&self, now: Timestamp) -> bool {
        self.ends_at.is_some_and(|at| Timestamp::from(at) <= now)
    }
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
        "select serial, kind, node_id, role, epoch, generation, not_before, not_after, first_used_at, revoked_at, ends_at, created_at
         from certificate where serial = $1",
    )
    .bind(serial)
    .fetch_optional(from)
    .await
}

/// Where a node stands in one kind of certificate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    /// The highest generation ever given.
    pub highest: u64,
    /// The highest that was ever presented; 0 if none was.
    pub used: u64,
    pub used_at: Option<OffsetDateTime>,
    pub made_at: Option<OffsetDateTime>,
    /// Given since the moment asked for.
    pub lately: i64,
}

/// The node's lines of working and of device certificates in this epoch.
pub async fn lines(conn: &mut PgConnection, node: NodeId, epoch: u64, since: Timestamp) -> sqlx::Result<(Line, Line)> {
    #[derive(sqlx::FromRow)]
    struct Row {
        kind: String,
        highest: i64,
        used: Option<i64>,
        used_at: Option<OffsetDateTime>,
        made_at: Option<OffsetDateTime>,
        lately: i64,
    }
    let rows: Vec<Row> = sqlx::query_as(
        "select kind, max(generation) as highest, max(generation) filter (where first_used_at is not null) as used,
                max(first_used_at) as used_at, max(created_at) as made_at,
                count(*) filter (where created_at > $3) as lately
         from certificate where node_id = $1 and epoch = $2 group by kind",
    )
    .bind(node.uuid())
    .bind(epoch as i64)
    .bind(OffsetDateTime::from(since))
    .fetch_all(conn)
    .await?;
    let line = |kind| {
        let row = rows.iter().find(|row| row.kind == kind_word(kind));
        row.map_or_else(Line::default, |row| Line {
            highest: row.highest as u64,
            used: row.used.unwrap_or(0) as u64,
            used_at: row.used_at,
            made_at: row.made_at,
            lately: row.lately,
        })
    };
    Ok((line(CertificateKind::Working), line(CertificateKind::Device)))
}

/// Remembers that a serial was presented, and ends those that it follows at `ends_at`. False if it was presented
/// before, or is revoked.
pub async fn first_use(
    with: impl sqlx::PgExecutor<'_>,
    serial: &str,
    now: Timestamp,
    ends_at: Timestamp,
) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "with used as (update certificate set first_used_at = $2
                       where serial = $1 and first_used_at is null and revoked_at is null
                       returning node_id, epoch, kind, generation),
              older as (update certificate old set ends_at = least(old.ends_at, $3) from used
                        where old.node_id = used.node_id and old.epoch = used.epoch and old.kind = used.kind
                          and old.generation < used.generation and old.revoked_at is null
                        returning 1)
         select exists (select 1 from used)",
    )
    .bind(serial)
    .bind(OffsetDateTime::from(now))
    .bind(OffsetDateTime::from(ends_at))
    .fetch_one(with)
    .await
}

/// Certificates whose answers were lost: whoever asks again from an older generation does not hold them.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    pub above: u64,
    pub made_before: Timestamp,
}

/// Ends what was lost and never presented. Says how many.
pub async fn revoke_lost(
    conn: &mut PgConnection,
    node: NodeId,
    epoch: u64,
    kind: CertificateKind,
    lost: Lost,
    at: Timestamp,
) -> sqlx::Result<u64> {
    let done = sqlx::query(
        "update certificate set revoked_at = $5, revoked_why = 'never used, and asked for again'
         where node_id = $1 and epoch = $2 and kind = $3 and generation > $4 and created_at < $6
           and first_used_at is null and revoked_at is null",
    )
    .bind(node.uuid())
    .bind(epoch as i64)
    .bind(kind_word(kind))
    .bind(lost.above as i64)
    .bind(OffsetDateTime::from(at))
    .bind(OffsetDateTime::from(lost.made_before))
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
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
        "select serial, kind, node_id, role, epoch, generation, not_before, not_after, first_used_at, revoked_at, ends_at, created_at
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

/// The newest working certificate of each of these nodes that still stands.
pub async fn newest_working(pool: &PgPool, nodes: &[uuid::Uuid]) -> sqlx::Result<Vec<CertificateRow>> {
    sqlx::query_as(
        "select distinct on (node_id)
                serial, kind, node_id, role, epoch, generation, not_before, not_after, first_used_at, revoked_at, ends_at, created_at
         from certificate where node_id = any($1) and kind = 'working' and revoked_at is null
         order by node_id, epoch desc, generation desc",
    )
    .bind(nodes)
    .fetch_all(pool)
    .await
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
