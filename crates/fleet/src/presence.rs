//! Who was heard, kept in memory and written in one statement a second: a heartbeat must not cost a transaction.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use model::id::NodeId;
use model::time::Timestamp;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::identity::NodeCaller;

pub struct Presence {
    unwritten: Mutex<Unwritten>,
    /// Since when everything heard was also written: before that, silence proves nothing.
    listening_since: Mutex<Instant>,
}

impl Default for Presence {
    fn default() -> Self {
        Self {
            unwritten: Mutex::default(),
            listening_since: Mutex::new(Instant::now()),
        }
    }
}

#[derive(Default)]
struct Unwritten {
    seen: HashMap<NodeId, Heard>,
    serials: HashSet<String>,
    /// Serials whose first use is known to be written.
    noted: HashSet<String>,
}

/// When, and which manifest it said it has, if it said so.
#[derive(Clone, Copy)]
struct Heard {
    at: Timestamp,
    manifest: Option<u64>,
}

impl Presence {
    pub fn heard(&self, caller: &NodeCaller, at: Timestamp, manifest: Option<u64>) {
        let mut unwritten = self.lock();
        let said = unwritten.seen.get(&caller.node_id).and_then(|heard| heard.manifest);
        let manifest = manifest.or(said);
        unwritten.seen.insert(caller.node_id, Heard { at, manifest });
        if !unwritten.noted.contains(&caller.serial) {
            unwritten.serials.insert(caller.serial.clone());
        }
    }

    /// Writes what was heard since the last time. On failure it is kept and tried again.
    pub async fn flush(&self, pool: &PgPool, now: Timestamp) -> sqlx::Result<()> {
        let (seen, serials) = {
            let mut unwritten = self.lock();
            (
                std::mem::take(&mut unwritten.seen),
                std::mem::take(&mut unwritten.serials),
            )
        };
        let result = write(pool, &seen, &serials, now).await;
        let mut unwritten = self.lock();
        if result.is_ok() {
            // A node uses a new serial once or twice a day; forgetting them all now and then costs one UPDATE each.
            if unwritten.noted.len() > 100_000 {
                unwritten.noted.clear();
            }
            unwritten.noted.extend(serials);
        } else {
            for (node, heard) in seen {
                let newer = unwritten.seen.entry(node).or_insert(heard);
                newer.manifest = newer.manifest.or(heard.manifest);
            }
            unwritten.serials.extend(serials);
            *self.listening_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        result
    }

    /// For how long silence has meant anything.
    pub fn listening_ms(&self) -> i64 {
        let since = *self.listening_since.lock().unwrap_or_else(PoisonError::into_inner);
        i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Unwritten> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write(
    pool: &PgPool,
    seen: &HashMap<NodeId, Heard>,
    serials: &HashSet<String>,
    now: Timestamp,
) -> sqlx::Result<()> {
    if !seen.is_empty() {
        let ids: Vec<Uuid> = seen.keys().map(|id| id.uuid()).collect();
        let times: Vec<OffsetDateTime> = seen.values().map(|heard| heard.at.into()).collect();
        let manifests: Vec<Option<i64>> = seen.values().map(|heard| heard.manifest.map(|v| v as i64)).collect();
        sqlx::query(
            // Locked in the order of ids, as everybody locks; a row that somebody holds is heard again soon.
            "with heard as (select * from unnest($1::uuid[], $2::timestamptz[], $3::bigint[]) as heard (id, at, manifest)),
                  free as (select node.id from node join heard on heard.id = node.id
                           order by node.id for no key update of node skip locked)
             update node set last_seen_at = greatest(node.last_seen_at, heard.at),
                 manifest_version = coalesce(heard.manifest, node.manifest_version)
             from heard join free on free.id = heard.id where node.id = heard.id",
        )
        .bind(ids)
        .bind(times)
        .bind(manifests)
        .execute(pool)
        .await?;
    }
    if !serials.is_empty() {
        let serials: Vec<String> = serials.iter().cloned().collect();
        crate::certificate::store::mark_used(pool, &serials, now).await?;
    }
    Ok(())
}
