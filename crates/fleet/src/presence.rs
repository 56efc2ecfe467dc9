//! Who was heard and how it said it was, kept in memory and written in one statement a second: a heartbeat must not
//! cost a transaction.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use model::id::{NodeId, SessionId};
use model::node_api::{Disk, HeartbeatRequest};
use model::signal::Code;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
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

/// What a node's heartbeat says of the node itself, as it is kept in its row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub results_pending: u32,
    pub disk: Option<Disk>,
}

/// Longer paths are cut: it is only for reading.
const PATH_MOST: usize = 200;

struct Condition {
    at: Timestamp,
    told: Told,
    trouble: Option<Code>,
}

impl Condition {
    /// In a form that the database takes whatever the node sent: one row that it refuses would hold up all others.
    fn new(request: &HeartbeatRequest, at: Timestamp) -> Self {
        let disk = request.disk.clone().map(|disk| {
            let plain = disk.path.chars().map(|c| if c.is_control() { ' ' } else { c });
            Disk {
                path: plain.take(PATH_MOST).collect(),
                ..disk
            }
        });
        let told = Told {
            results_pending: request.results_pending,
            disk,
        };
        let trouble = request.trouble;
        Self { at, told, trouble }
    }
}

#[derive(Default)]
struct Unwritten {
    seen: HashMap<NodeId, Heard>,
    conditions: HashMap<NodeId, Condition>,
}

/// What was last heard of a node.
#[derive(Clone, Copy)]
struct Heard {
    at: Timestamp,
    /// The manifest that it said it has, if it said so.
    manifest: Option<u64>,
    /// The session in which it asked for work or named some, and when.
    session: Option<(SessionId, Timestamp)>,
}

impl Heard {
    fn at(at: Timestamp) -> Self {
        Self {
            at,
            manifest: None,
            session: None,
        }
    }
}

impl Presence {
    pub fn heard(&self, caller: &NodeCaller, at: Timestamp, manifest: Option<u64>) {
        let mut unwritten = self.lock();
        let heard = unwritten.seen.entry(caller.node_id).or_insert(Heard::at(at));
        heard.at = at;
        heard.manifest = manifest.or(heard.manifest);
    }

    /// The session that counts was heard.
    pub fn heard_in(&self, node: NodeId, session: SessionId, at: Timestamp) {
        let mut unwritten = self.lock();
        let heard = unwritten.seen.entry(node).or_insert(Heard::at(at));
        heard.session = Some((session, at));
    }

    /// What a heartbeat said of the node itself; the newest word counts.
    pub fn told(&self, node_id: NodeId, request: &HeartbeatRequest, at: Timestamp) {
        self.lock().conditions.insert(node_id, Condition::new(request, at));
    }

    /// Writes what was heard since the last time. On failure it is kept and tried again.
    pub async fn flush(&self, pool: &PgPool) -> sqlx::Result<()> {
        let (seen, conditions) = {
            let mut unwritten = self.lock();
            (
                std::mem::take(&mut unwritten.seen),
                std::mem::take(&mut unwritten.conditions),
            )
        };
        let mut result = write(pool, &seen).await;
        let mut written = HashSet::new();
        if result.is_ok() {
            (written, result) = match write_conditions(pool, &conditions).await {
                Ok(written) => (written.into_iter().collect(), Ok(())),
                Err(error) => (HashSet::new(), Err(error)),
            };
        }
        let mut unwritten = self.lock();
        for (node, condition) in conditions {
            if !written.contains(&node.uuid()) {
                unwritten.conditions.entry(node).or_insert(condition);
            }
        }
        if result.is_err() {
            for (node, heard) in seen {
                let newer = unwritten.seen.entry(node).or_insert(heard);
                newer.manifest = newer.manifest.or(heard.manifest);
                newer.session = newer.session.or(heard.session);
            }
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

async fn write(pool: &PgPool, seen: &HashMap<NodeId, Heard>) -> sqlx::Result<()> {
    if seen.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = seen.keys().map(|id| id.uuid()).collect();
    let times: Vec<OffsetDateTime> = seen.values().map(|heard| heard.at.into()).collect();
    let manifests: Vec<Option<i64>> = seen.values().map(|heard| heard.manifest.map(|v| v as i64)).collect();
    let (sessions, asked): (Vec<Option<Uuid>>, Vec<Option<OffsetDateTime>>) = seen
        .values()
        .map(|heard| heard.session.map(|(id, at)| (id.uuid(), at.into())).unzip())
        .unzip();
    sqlx::query(
        // Locked in the order of ids, as everybody locks; a row that somebody holds is heard again soon.
        "with heard as (select * from unnest($1::uuid[], $2::timestamptz[], $3::uuid[], $4::timestamptz[], $5::bigint[])
                            as heard (id, at, session_id, asked_at, manifest)),
              free as (select node.id from node join heard on heard.id = node.id
                       order by node.id for no key update of node skip locked)
         update node set last_seen_at = greatest(node.last_seen_at, heard.at),
             manifest_version = coalesce(heard.manifest, node.manifest_version),
             session_heard_at = case when node.session_id = heard.session_id
                 then greatest(node.session_heard_at, heard.asked_at) else node.session_heard_at end
         from heard join free on free.id = heard.id where node.id = heard.id",
    )
    .bind(ids)
    .bind(times)
    .bind(sessions)
    .bind(asked)
    .bind(manifests)
    .execute(pool)
    .await?;
    Ok(())
}

/// The nodes whose rows were free to be written; those that somebody holds come again, because a node that is well
/// says so only once. An older word never replaces a newer one: a node's beats may reach two processes of ours.
async fn write_conditions(pool: &PgPool, conditions: &HashMap<NodeId, Condition>) -> sqlx::Result<Vec<Uuid>> {
    if conditions.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = conditions.keys().map(|id| id.uuid()).collect();
    let values = || conditions.values();
    let times: Vec<OffsetDateTime> = values().map(|condition| condition.at.into()).collect();
    let told: Vec<_> = values().map(|condition| sqlx::types::Json(&condition.told)).collect();
    let troubles: Vec<Option<&str>> = values().map(|condition| condition.trouble.map(Code::as_str)).collect();
    sqlx::query_scalar(
        "with said as (select * from unnest($1::uuid[], $2::timestamptz[], $3::jsonb[], $4::text[])
                           as said (id, at, told, trouble)),
              free as (select node.id from node join said on said.id = node.id
                       order by node.id for no key update of node skip locked),
              written as (
                  update node set condition = said.told, condition_at = said.at, trouble = said.trouble,
                      trouble_since = case when said.trouble is null then null
                                           when node.trouble is not distinct from said.trouble then node.trouble_since
                                           else said.at end
                  from said join free on free.id = said.id
                  where node.id = said.id and (node.condition_at is null or node.condition_at <= said.at))
         select id from free",
    )
    .bind(ids)
    .bind(times)
    .bind(told)
    .bind(troubles)
    .fetch_all(pool)
    .await
}
