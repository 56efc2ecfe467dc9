//! The sealer: gives every committed audit row its place in the chain, within a second. It finds them by looking for
//! rows without a seal, never by a cursor, because a slow transaction commits rows that are older than ones already
//! sealed. One sealer works at a time.

use std::time::Duration;

use ::metrics::{counter, gauge};
use sqlx::postgres::PgConnection;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

use super::{AuditRow, GENESIS, chain};
use crate::db::{Db, Lock};
use crate::metrics::{AUDIT_SEALED, AUDIT_UNSEALED_SECONDS};

const EVERY: Duration = Duration::from_millis(500);
const BATCH: i64 = 500;
/// Looking at all rows each half second would cost more than the audit itself. A busy fleet writes hundreds of
/// thousands in an hour, so usually only the last minutes are looked at; no transaction of ours lives longer. Now and
/// then it is the last hours, and at the start and once an hour everything.
const RECENT: time::Duration = time::Duration::minutes(3);
const WIDE: time::Duration = time::Duration::hours(2);
const WIDE_EVERY: u32 = 600;
const FULL_EVERY: u32 = 7200;

/// Runs until `stop` fires.
pub async fn sealer(db: Db, stop: CancellationToken) {
    let mut round = 0u32;
    loop {
        let now = OffsetDateTime::from(db.clock().now());
        let since = match round {
            n if n.is_multiple_of(FULL_EVERY) => None,
            n if n.is_multiple_of(WIDE_EVERY) => Some(now - WIDE),
            _ => Some(now - RECENT),
        };
        match seal_since(&db, since).await {
            Ok(_) => round = round.wrapping_add(1),
            Err(error) => tracing::warn!(%error, "audit rows cannot be sealed; trying again"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// Seals everything there is; for tests, shutdown and `audit verify`.
pub async fn seal_all(db: &Db) -> sqlx::Result<u64> {
    seal_since(db, None).await
}

async fn seal_since(db: &Db, since: Option<OffsetDateTime>) -> sqlx::Result<u64> {
    let mut total = 0;
    loop {
        let (sealed, oldest) = seal(db, since).await?;
        total += sealed;
        counter!(AUDIT_SEALED).increment(sealed);
        if sealed < BATCH as u64 {
            let age = oldest.map_or(0.0, |at| (OffsetDateTime::from(db.clock().now()) - at).as_seconds_f64());
            gauge!(AUDIT_UNSEALED_SECONDS).set(age.max(0.0));
            return Ok(total);
        }
    }
}

async fn seal(db: &Db, since: Option<OffsetDateTime>) -> sqlx::Result<(u64, Option<OffsetDateTime>)> {
    let mut tx = Db::begin(db.bookkeeping()).await?;
    let mine: bool = sqlx::query_scalar("select pg_try_advisory_xact_lock($1)")
        .bind(Lock::AuditSealer.key())
        .fetch_one(&mut *tx)
        .await?;
    if !mine {
        return Ok((0, None));
    }
    // Until the end of this transaction only: nothing else in the process may write seals.
    sqlx::query("set local role gpuaas_sealer").execute(&mut *tx).await?;
    let rows: Vec<AuditRow> = sqlx::query_as(
        "select id, at, actor_kind, actor_id, address, action, target_kind, target_id, outcome, code, correlation_id, details_text
         from audit a
         where ($1::timestamptz is null or at >= $1) and not exists (select from audit_seal s where s.audit_id = a.id)
         order by at, id limit $2",
    )
    .bind(since)
    .bind(BATCH)
    .fetch_all(&mut *tx)
    .await?;
    if rows.is_empty() {
        return Ok((0, None));
    }
    append(&mut tx, &rows).await?;
    tx.commit().await?;
    Ok((rows.len() as u64, rows.first().map(|row| row.at)))
}

async fn append(conn: &mut PgConnection, rows: &[AuditRow]) -> sqlx::Result<()> {
    let head: Option<(i64, Vec<u8>)> = sqlx::query_as("select pos, hash from audit_head")
        .fetch_optional(&mut *conn)
        .await?;
    let (mut pos, mut hash) = head.unwrap_or((0, GENESIS.to_vec()));
    let (mut places, mut ids, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        pos += 1;
        hash = chain(&hash, row).as_bytes().to_vec();
        places.push(pos);
        ids.push(row.id);
        hashes.push(hash.clone());
    }
    sqlx::query(
        "insert into audit_seal (pos, audit_id, hash) select * from unnest($1::bigint[], $2::uuid[], $3::bytea[])",
    )
    .bind(places)
    .bind(ids)
    .bind(hashes)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "insert into audit_head (pos, hash) values ($1, $2)
         on conflict (only_one) do update set pos = excluded.pos, hash = excluded.hash",
    )
    .bind(pos)
    .bind(hash)
    .execute(&mut *conn)
    .await?;
    Ok(())
}
