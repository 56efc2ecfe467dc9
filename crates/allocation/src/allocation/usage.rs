//! Time that may be charged. The database opens and closes spans with the moves of an allocation; here is only the hand
//! that moves the proof, for whoever has a node's signature that the allocation stood until then.

use model::id::AllocationId;
use model::time::Timestamp;
use sqlx::PgExecutor;
use time::OffsetDateTime;

/// The node has signed that it held this allocation until then. Never back, and never past the end of the span.
pub async fn proven(conn: impl PgExecutor<'_>, allocation: AllocationId, until: Timestamp) -> sqlx::Result<bool> {
    let moved = sqlx::query(
        "update usage_span set proven_until = greatest(proven_until, least($2, coalesce(upper(span), $2)))
         where allocation_id = $1 and not isempty(span)
           and proven_until < least($2, coalesce(upper(span), $2))",
    )
    .bind(allocation.uuid())
    .bind(OffsetDateTime::from(until))
    .execute(conn)
    .await?;
    Ok(moved.rows_affected() == 1)
}
