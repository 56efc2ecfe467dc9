//! Stamps `seq` onto committed events, in one order for everybody. One relay is at work at a time, by advisory lock;
//! others stand by and take over with the next round. A carrier such as NATS publishes from here on, by `seq`.

use std::time::Duration;

use ::metrics::{counter, gauge};
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::db::{Db, Lock};
use crate::metrics::{OUTBOX_STAMPED, OUTBOX_UNSTAMPED_SECONDS};
use crate::wake::Topic;

const SWEEP: Duration = Duration::from_secs(1);
const BATCH: u64 = 500;
/// A batch, in the order in which they were told. The count stands in the text because the planner must know it. Rows are
/// found again by where they lie: nobody else moves them, and nothing need be searched for.
pub const STAMP: &str = "with next as (
        select place, (select coalesce(max(seq), 0) from outbox) + row_number() over (order by drawn) as seq
        from (select ctid as place, drawn from outbox where seq is null order by drawn limit 500) waiting
    )
    update outbox set seq = next.seq from next where outbox.ctid = next.place returning outbox.created_at";
/// The first event after a silence is stamped at once; what comes within this time of a stamp shares the next one, since
/// each waits for the disk.
const GATHER: Duration = Duration::from_millis(10);
/// `Last-Event-ID` resumes within a day; a week leaves time to look into something.
const KEEP: time::Duration = time::Duration::days(7);
/// Old events go in batches between two stamps, so that no event waits for more than one of them.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// Events of one batch behind a number, along their numbers, which are in an index. The count stands in the text because the
/// planner must know it. Never the newest: the next sequence number counts on from it. Gives how many are gone, how many
/// are dated after now, and the last number that was looked at.
pub const PRUNE: &str = "with looked as materialized (
        select seq, created_at from outbox where seq > $2 and seq < (select max(seq) from outbox) order by seq limit 1000),
    gone as (delete from outbox where seq = any(array(select seq from looked where created_at < $1)) returning seq)
    select (select count(*) from gone), count(*) filter (where created_at > $3), coalesce(max(seq), 0) from looked";
/// A batch with as many is followed by the next one soon: among the first in number there may be some that are not
/// old, since clocks differ. What a clock far ahead has dated is passed by, and does not keep the rest.
const MORE: i64 = 500;
const PRUNE_ON: Duration = Duration::from_secs(1);

/// Runs until `stop` fires.
pub async fn relay(db: Db, stop: CancellationToken) {
    let mut bell = db.wake().subscribe(Topic::Outbox);
    let mut prune_at = Instant::now();
    let mut behind = 0;
    loop {
        let gather = match stamp_all(&db).await {
            Ok(0) => Duration::ZERO,
            Ok(stamped) => {
                counter!(OUTBOX_STAMPED).increment(stamped);
                GATHER
            }
            Err(error) => {
                tracing::warn!(%error, "events cannot be stamped; trying again");
                SWEEP
            }
        };
        if Instant::now() >= prune_at {
            let pause;
            (behind, pause) = match prune(&db, behind).await {
                Ok(Pruned { next: Some(seq), .. }) => (seq, PRUNE_ON),
                // All that is behind is young: from the first number again.
                Ok(Pruned { next: None, .. }) => (0, PRUNE_EVERY),
                Err(error) => {
                    tracing::warn!(%error, "old events cannot be removed; trying again");
                    (0, PRUNE_EVERY)
                }
            };
            prune_at = Instant::now() + pause;
        }
        let due = async {
            tokio::time::sleep(gather).await;
            bell.look_again(SWEEP).await;
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = due => {}
        }
    }
}

/// Stamps everything there is, batch by batch. Returns how many.
pub async fn stamp_all(db: &Db) -> sqlx::Result<u64> {
    let mut total = 0;
    loop {
        let stamped = stamp(db).await?;
        total += stamped;
        if stamped > 0 {
            db.wake().raise(Topic::Events);
        }
        if stamped < BATCH {
            return Ok(total);
        }
    }
}

async fn stamp(db: &Db) -> sqlx::Result<u64> {
    let mut tx = Db::begin(db.bookkeeping()).await?;
    let mine: bool = sqlx::query_scalar("select pg_try_advisory_xact_lock($1)")
        .bind(Lock::OutboxRelay.key())
        .fetch_one(&mut *tx)
        .await?;
    if !mine {
        return Ok(0);
    }
    // The lock is held until after the commit is visible, so the next batch counts on from this one.
    let waited: Vec<OffsetDateTime> = sqlx::query_scalar(STAMP).fetch_all(&mut *tx).await?;
    tx.commit().await?;
    let now = OffsetDateTime::from(db.clock().now());
    let age = waited.iter().min().map_or(0.0, |at| (now - *at).as_seconds_f64());
    gauge!(OUTBOX_UNSTAMPED_SECONDS).set(age.max(0.0));
    Ok(waited.len() as u64)
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    pub gone: i64,
    /// There may be more old ones behind this number.
    pub next: Option<i64>,
}

/// Removes a batch of old events, of those behind a number.
pub async fn prune(db: &Db, behind: i64) -> sqlx::Result<Pruned> {
    let now = OffsetDateTime::from(db.clock().now());
    let (gone, ahead, last): (i64, i64, i64) = sqlx::query_as(PRUNE)
        .bind(now - KEEP)
        .bind(behind)
        .bind(now)
        .fetch_one(db.bookkeeping())
        .await?;
    let next = (gone + ahead >= MORE).then_some(last);
    Ok(Pruned { gone, next })
}
