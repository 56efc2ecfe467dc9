//! Forgetting: tasks that only looked are not kept for ever. What acted under a person's wish stays, and so do all
//! audit rows, the signature log among them; what a node last showed of itself stands in its own row.

use model::time::Timestamp;
use sqlx::PgPool;
use time::OffsetDateTime;

/// A pass locks no more rows than this at once.
const BATCH: i64 = 1000;

/// Removes looks that ended before `before`, batch by batch. Returns how many.
pub async fn forget_looks(pool: &PgPool, before: Timestamp) -> sqlx::Result<u64> {
    let mut total = 0;
    loop {
        let gone = sqlx::query(
            "delete from task where id in (
                 select id from task where intent_sha256 is null and ended_at < $1
                 order by ended_at limit $2 for update skip locked)",
        )
        .bind(OffsetDateTime::from(before))
        .bind(BATCH)
        .execute(pool)
        .await?
        .rows_affected();
        total += gone;
        if gone < BATCH as u64 {
            return Ok(total);
        }
    }
}
