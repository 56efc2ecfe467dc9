//! Forgetting: tasks that only looked are not kept for ever. What acted under a person's wish stays, and so do all
//! audit rows, the signature log among them; what a node last showed of itself stands in its own row.

use model::time::Timestamp;
use sqlx::PgPool;
use time::OffsetDateTime;

/// A pass locks no more rows than this at once.
const BATCH: u64 = 1000;
/// The count stands in the text, too, because the planner must know it.
pub const FORGET: &str = "delete from task where id = any(array(
        select id from task where intent_sha256 is null and ended_at < $1
        order by ended_at limit 1000 for update skip locked))";

/// Removes looks that ended before `before`, batch by batch. Returns how many.
pub async fn forget_looks(pool: &PgPool, before: Timestamp) -> sqlx::Result<u64> {
    let mut total = 0;
    loop {
        let gone = sqlx::query(FORGET)
            .bind(OffsetDateTime::from(before))
            .execute(pool)
            .await?
            .rows_affected();
        total += gone;
        if gone < BATCH {
            return Ok(total);
        }
    }
}
