//! Rows of signed catalogues. A row says nothing by itself: what counts is what opens under the operators' key.

use base::Change;
use model::dsse::Envelope;
use sqlx::PgConnection;
use time::OffsetDateTime;

/// More than this many new ones at once are looked at with the next pass.
const AT_ONCE: i64 = 64;

/// Rows that claim a version after this one, oldest first; what is no envelope is none.
pub(super) async fn after(conn: &mut PgConnection, version: u64) -> sqlx::Result<Vec<Option<Envelope>>> {
    let rows: Vec<Vec<u8>> = sqlx::query_scalar(
        "select document from image_catalogue where version > $1 order by version desc, no desc limit $2",
    )
    .bind(i64::try_from(version).unwrap_or(i64::MAX))
    .bind(AT_ONCE)
    .fetch_all(conn)
    .await?;
    Ok(rows.iter().rev().map(|bytes| Envelope::parse(bytes).ok()).collect())
}

pub(super) async fn put(change: &mut Change, version: u64, document: &Envelope) -> sqlx::Result<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query("insert into image_catalogue (version, document, created_at) values ($1, $2, $3)")
        .bind(i64::try_from(version).unwrap_or(i64::MAX))
        .bind(document.to_bytes())
        .bind(at)
        .execute(change.conn())
        .await?;
    Ok(())
}

/// One catalogue at a time, whichever replica takes it; until the change ends.
pub(super) async fn lock(change: &mut Change) -> sqlx::Result<()> {
    sqlx::query("select pg_advisory_xact_lock(hashtextextended('image_catalogue', 0))")
        .execute(change.conn())
        .await?;
    Ok(())
}
