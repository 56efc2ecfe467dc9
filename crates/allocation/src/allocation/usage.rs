//! Time that may be charged. The database opens and closes spans with the moves of an allocation and with what is proved of
//! it; here are only the hands that bring a node's signature.

use model::id::AllocationId;
use model::time::Timestamp;
use sqlx::PgExecutor;
use time::OffsetDateTime;

/// The node has signed that it held this allocation until then, in this life of its host, where that matters. Never back,
/// never past the end of a span, and not across a silence that was too long: then another span begins.
pub async fn proven(
    conn: impl PgExecutor<'_>,
    allocation: AllocationId,
    until: Timestamp,
    boot: Option<&str>,
) -> sqlx::Result<bool> {
    sqlx::query_scalar("select usage_proven($1, $2, $3)")
        .bind(allocation.uuid())
        .bind(OffsetDateTime::from(until))
        .bind(boot)
        .fetch_one(conn)
        .await
}

/// The node has signed that it was not there then, and nobody had asked for that: what is open ends where its proof does.
pub async fn lost(conn: impl PgExecutor<'_>, allocation: AllocationId, at: Timestamp, why: &str) -> sqlx::Result<bool> {
    sqlx::query_scalar("select usage_lost($1, $2, $3)")
        .bind(allocation.uuid())
        .bind(OffsetDateTime::from(at))
        .bind(why)
        .fetch_one(conn)
        .await
}
