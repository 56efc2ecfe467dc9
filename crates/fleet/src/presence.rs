//! Who was heard, kept in memory and written in one statement a second: a heartbeat must not cost a transaction. A
//! node that talks much is written down now and then only; how often is a share of the time after which it is stale.

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
    /// Least time between two writes about one node.
    spacing_ms: i64,
}

#[derive(Default)]
struct Unwritten {
    seen: HashMap<NodeId, Timestamp>,
    /// When those who were heard lately were last written, as we heard them.
    written: HashMap<NodeId, Timestamp>,
    serials: HashSet<String>,
    /// Serials whose first use is known to be written.
    noted: HashSet<String>,
}

impl Unwritten {
    /// Those who were not written for a while.
    fn due(&mut self, spacing_ms: i64) -> HashMap<NodeId, Timestamp> {
        let Self { seen, written, .. } = self;
        seen.extract_if(|node, at| written.get(node).is_none_or(|then| at.since_ms(*then) >= spacing_ms))
            .collect()
    }
}

impl Presence {
    pub fn new(spacing_ms: i64) -> Self {
        Self {
            unwritten: Mutex::default(),
            listening_since: Mutex::new(Instant::now()),
            spacing_ms,
        }
    }

    pub fn heard(&self, caller: &NodeCaller, at: Timestamp) {
        let mut unwritten = self.lock();
        unwritten.seen.insert(caller.node_id, at);
        if !unwritten.noted.contains(&caller.serial) {
            unwritten.serials.insert(caller.serial.clone());
        }
    }

    /// Writes what was heard since the last time. On failure it is kept and tried again.
    pub async fn flush(&self, pool: &PgPool, now: Timestamp) -> sqlx::Result<()> {
        let (seen, serials) = {
            let mut unwritten = self.lock();
            (unwritten.due(self.spacing_ms), std::mem::take(&mut unwritten.serials))
        };
        let result = write(pool, &seen, &serials, now).await;
        let mut unwritten = self.lock();
        if let Ok(written) = &result {
            for (node, at) in seen {
                // A row that somebody held was left alone; it is tried again with the next flush.
                if written.contains(&node) {
                    unwritten.written.insert(node, at);
                } else {
                    unwritten.seen.entry(node).or_insert(at);
                }
            }
            // Whoever was silent for long is written at once when heard again; there is nothing to remember.
            let spacing_ms = self.spacing_ms;
            unwritten.written.retain(|_, at| now.since_ms(*at) < spacing_ms);
            // A node uses a new serial once or twice a day; forgetting them all now and then costs one UPDATE each.
            if unwritten.noted.len() > 100_000 {
                unwritten.noted.clear();
            }
            unwritten.noted.extend(serials);
        } else {
            for (node, at) in seen {
                unwritten.seen.entry(node).or_insert(at);
            }
            unwritten.serials.extend(serials);
            *self.listening_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        result.map(drop)
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
    seen: &HashMap<NodeId, Timestamp>,
    serials: &HashSet<String>,
    now: Timestamp,
) -> sqlx::Result<HashSet<NodeId>> {
    let mut written = HashSet::new();
    if !seen.is_empty() {
        let ids: Vec<Uuid> = seen.keys().map(|id| id.uuid()).collect();
        let times: Vec<OffsetDateTime> = seen.values().map(|at| (*at).into()).collect();
        let ids: Vec<Uuid> = sqlx::query_scalar(
            // Locked in the order of ids, as everybody locks; a row that somebody holds is heard again soon.
            "with heard as (select * from unnest($1::uuid[], $2::timestamptz[]) as heard (id, at)),
                  free as (select node.id from node join heard on heard.id = node.id
                           order by node.id for no key update of node skip locked)
             update node set last_seen_at = greatest(node.last_seen_at, heard.at)
             from heard join free on free.id = heard.id where node.id = heard.id returning node.id",
        )
        .bind(ids)
        .bind(times)
        .fetch_all(pool)
        .await?;
        written.extend(ids.into_iter().map(NodeId::from));
    }
    if !serials.is_empty() {
        let serials: Vec<String> = serials.iter().cloned().collect();
        crate::certificate::store::mark_used(pool, &serials, now).await?;
    }
    Ok(written)
}
