//! Rows of signed trust documents, wishes for a rotation, and who knows which manifest.

use base::Change;
use model::dsse::Envelope;
use model::key::KeyId;
use model::time::Timestamp;
use model::trust::{Bundle, Purpose};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

/// More than this many new ones at once are looked at with the next pass.
const AT_ONCE: i64 = 256;

/// Has this installation its documents?
pub async fn any(pool: &PgPool) -> sqlx::Result<bool> {
    sqlx::query_scalar("select exists (select from trust_bundle)")
        .fetch_one(pool)
        .await
}

/// Rows after this version, oldest first; what is no bundle is none.
pub(super) async fn after(
    conn: &mut PgConnection,
    version: u64,
    skip: &[i64],
) -> sqlx::Result<Vec<(u64, Option<Bundle>)>> {
    let rows: Vec<(i64, Vec<u8>, Vec<u8>)> = sqlx::query_as(
        "select manifest_version, delegation, manifest from trust_bundle
         where manifest_version > $1 and manifest_version <> all($2) order by manifest_version limit $3",
    )
    .bind(version as i64)
    .bind(skip)
    .bind(AT_ONCE)
    .fetch_all(conn)
    .await?;
    let parsed = rows.into_iter().map(|(version, delegation, manifest)| {
        let bundle = Envelope::parse(&delegation).and_then(|delegation| {
            let manifest = Envelope::parse(&manifest)?;
            Ok(Bundle { delegation, manifest })
        });
        (version as u64, bundle.ok())
    });
    Ok(parsed.collect())
}

/// The first number after this one that no row has. Somebody may have put rows there that say nothing.
pub(super) async fn free_version(conn: &mut PgConnection, after: u64) -> sqlx::Result<u64> {
    let taken: Vec<i64> = sqlx::query_scalar(
        "select manifest_version from trust_bundle where manifest_version > $1 order by manifest_version",
    )
    .bind(after as i64)
    .fetch_all(conn)
    .await?;
    let mut free = after + 1;
    for taken in taken {
        if taken as u64 != free {
            break;
        }
        free += 1;
    }
    Ok(free)
}

pub(super) async fn bundle_put(change: &mut Change, version: u64, bundle: &Bundle) -> sqlx::Result<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query(
        "insert into trust_bundle (manifest_version, delegation, manifest, created_at) values ($1, $2, $3, $4)",
    )
    .bind(version as i64)
    .bind(bundle.delegation.to_bytes())
    .bind(bundle.manifest.to_bytes())
    .bind(at)
    .execute(change.conn())
    .await?;
    Ok(())
}

/// One manifest at a time, whichever replica makes it; until the change ends.
pub(super) async fn lock(change: &mut Change) -> sqlx::Result<()> {
    sqlx::query("select pg_advisory_xact_lock(hashtextextended('trust', 0))")
        .execute(change.conn())
        .await?;
    Ok(())
}

/// A rotation that somebody wants and that waits for nodes.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct Wanted {
    pub(super) purpose: String,
    pub(super) asked_at: OffsetDateTime,
    pub(super) asked_by: String,
}

impl Wanted {
    pub(super) fn purpose(&self) -> Option<Purpose> {
        Purpose::ALL.into_iter().find(|p| p.as_str() == self.purpose)
    }
}

pub(super) async fn wanted(conn: &mut PgConnection) -> sqlx::Result<Vec<Wanted>> {
    sqlx::query_as("select purpose, asked_at, asked_by from trust_rotation order by purpose")
        .fetch_all(conn)
        .await
}

pub(super) async fn want(change: &mut Change, purpose: Purpose) -> sqlx::Result<()> {
    let (at, actor) = (OffsetDateTime::from(change.at()), change.actor());
    let by = format!("{}:{}", actor.kind.as_str(), actor.id);
    sqlx::query("insert into trust_rotation (purpose, asked_at, asked_by) values ($1, $2, $3) on conflict do nothing")
        .bind(purpose.as_str())
        .bind(at)
        .bind(by)
        .execute(change.conn())
        .await?;
    Ok(())
}

pub(super) async fn done(change: &mut Change, purpose: Purpose) -> sqlx::Result<()> {
    sqlx::query("delete from trust_rotation where purpose = $1")
        .bind(purpose.as_str())
        .execute(change.conn())
        .await?;
    Ok(())
}

/// A node that counts and does not have a manifest yet.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct Behind {
    pub(super) id: Uuid,
    pub(super) name: String,
    pub(super) state: String,
    pub(super) manifest_version: Option<i64>,
    pub(super) last_seen_at: Option<OffsetDateTime>,
}

/// Who counts: enrolled, heard lately, neither quarantined nor removed. Those of them that are behind `version`, the
/// longest silent first.
pub(super) async fn behind(
    conn: &mut PgConnection,
    version: u64,
    heard_after: Timestamp,
    most: i64,
) -> sqlx::Result<Vec<Behind>> {
    sqlx::query_as(
        "select id, name, state, manifest_version, last_seen_at from node
         where state not in ('quarantined', 'removed') and epoch > 0 and last_seen_at > $2
           and coalesce(manifest_version, 0) < $1
         order by last_seen_at, id limit $3",
    )
    .bind(version as i64)
    .bind(OffsetDateTime::from(heard_after))
    .bind(most)
    .fetch_all(conn)
    .await
}

/// How many nodes that count have which manifest.
pub(super) async fn knowledge(conn: &mut PgConnection, heard_after: Timestamp) -> sqlx::Result<Vec<(u64, u64)>> {
    let rows: Vec<(i64, i64)> = sqlx::query_as(
        "select coalesce(manifest_version, 0), count(*) from node
         where state not in ('quarantined', 'removed') and epoch > 0 and last_seen_at > $1 group by 1",
    )
    .bind(OffsetDateTime::from(heard_after))
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|(v, n)| (v as u64, n as u64)).collect())
}

/// Which of these keys have signed something that could still start?
pub(super) async fn needed(conn: &mut PgConnection, keys: &[KeyId], after: Timestamp) -> sqlx::Result<Vec<String>> {
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    sqlx::query_scalar(
        "select distinct keyid from task where keyid = any($1) and start_by > $2
           and state in ('queued', 'dispatched', 'unknown')",
    )
    .bind(keys)
    .bind(OffsetDateTime::from(after))
    .fetch_all(conn)
    .await
}
