//! Who was heard and how it said it was, kept in memory and written in one statement a second: a heartbeat must not
//! cost a transaction. A node that talks much and has nothing new to say is written down now and then only.

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
    listening: Mutex<Listening>,
    clock: Mutex<Looks>,
    /// Least time between two writes about one node.
    spacing_ms: i64,
}

/// Since when everything heard was also written: before that, silence proves nothing.
struct Listening {
    /// By all of us.
    all: Instant,
    /// By this process, whatever another one does.
    own: Instant,
}

impl Listening {
    fn anew() -> Self {
        let now = Instant::now();
        Self { all: now, own: now }
    }
}

/// What is known of the wall clock.
struct Looks {
    /// What it said when it was last looked at.
    last: Option<(Timestamp, Instant)>,
    /// What is ahead of it by more than so many milliseconds still has to be dated back.
    ahead_ms: Option<i64>,
}

/// The wall clock is set a little now and then; more than this is a jump.
const JUMP_MS: i64 = 1000;
/// The clocks of two machines may differ by as much. Whoever has just begun cannot know whether its own has jumped: what
/// is further ahead was written by one that was wrong.
const DIFFER_MS: i64 = 30_000;

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
    /// What was last written about those who were heard lately.
    written: HashMap<NodeId, Heard>,
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

    /// Is there more in it than another sign of life?
    fn is_news(&self, then: &Self) -> bool {
        let session = |heard: &Self| heard.session.map(|(id, _)| id);
        (self.manifest.is_some() && self.manifest != then.manifest)
            || (self.session.is_some() && session(self) != session(then))
    }

    /// What this one does not say, an earlier one has said.
    fn after(self, earlier: &Self) -> Self {
        Self {
            at: self.at,
            manifest: self.manifest.or(earlier.manifest),
            session: self.session.or(earlier.session),
        }
    }
}

impl Unwritten {
    /// Those who were not written for a while, or who have something new to say.
    fn due(&mut self, spacing_ms: i64) -> HashMap<NodeId, Heard> {
        let Self { seen, written, .. } = self;
        // Either way: what was written in the future was so before our clock was set back.
        let is_due = |node: &NodeId, heard: &mut Heard| {
            let then = written.get(node);
            then.is_none_or(|then| heard.is_news(then) || heard.at.since_ms(then.at).abs() >= spacing_ms)
        };
        seen.extract_if(is_due).collect()
    }

    /// What was heard in the future was heard before our clock was set back: just now, as far as anybody knows.
    fn not_after(&mut self, now: Timestamp) {
        for heard in self.seen.values_mut() {
            heard.at = heard.at.min(now);
            heard.session = heard.session.map(|(id, asked)| (id, asked.min(now)));
        }
        for condition in self.conditions.values_mut() {
            condition.at = condition.at.min(now);
        }
    }

    fn note(&mut self, node: NodeId, heard: Heard) {
        let kept = self.written.get(&node).map_or(heard, |then| heard.after(then));
        self.written.insert(node, kept);
    }

    fn again(&mut self, node: NodeId, heard: Heard) {
        let newer = self.seen.entry(node).or_insert(heard);
        *newer = newer.after(&heard);
    }
}

impl Presence {
    pub fn new(spacing_ms: i64) -> Self {
        Self {
            unwritten: Mutex::default(),
            listening: Mutex::new(Listening::anew()),
            clock: Mutex::new(Looks {
                last: None,
                ahead_ms: Some(DIFFER_MS),
            }),
            spacing_ms,
        }
    }

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
    pub async fn flush(&self, pool: &PgPool, now: Timestamp) -> sqlx::Result<()> {
        let (seen, conditions) = {
            let mut unwritten = self.lock();
            unwritten.not_after(now);
            (
                unwritten.due(self.spacing_ms),
                std::mem::take(&mut unwritten.conditions),
            )
        };
        let result = write(pool, &seen).await;
        let settled = match &result {
            Ok(_) => write_conditions(pool, &conditions).await,
            Err(_) => Ok(HashSet::new()),
        };
        let mut unwritten = self.lock();
        for (node, condition) in conditions {
            if !settled.as_ref().is_ok_and(|settled| settled.contains(&node)) {
                unwritten.conditions.entry(node).or_insert(condition);
            }
        }
        let result = result.and_then(|written| settled.map(|_| written));
        if let Ok(written) = &result {
            for (node, heard) in seen {
                // A row that somebody held was left alone; it is tried again with the next flush.
                match written.contains(&node) {
                    true => unwritten.note(node, heard),
                    false => unwritten.again(node, heard),
                }
            }
            // Whoever was silent for long is written at once when heard again; there is nothing to remember.
            let spacing_ms = self.spacing_ms;
            unwritten
                .written
                .retain(|_, heard| now.since_ms(heard.at).abs() < spacing_ms);
        } else {
            for (node, heard) in seen {
                unwritten.again(node, heard);
            }
            self.listen_anew();
        }
        result.map(drop)
    }

    /// Nobody could be heard until now.
    pub fn listen_anew(&self) {
        *self.listening() = Listening::anew();
    }

    /// Whoever another process of ours holds could not be heard until now.
    pub fn others_stood_still(&self) {
        self.listening().all = Instant::now();
    }

    /// Whether the wall clock has jumped since the last look: then what was written by it says nothing of how long ago
    /// that was.
    pub fn clock_jumped(&self, now: Timestamp) -> bool {
        let mut looks = self.looks();
        let (then, since) = looks
            .last
            .replace((now, Instant::now()))
            .unwrap_or((now, Instant::now()));
        let jumped = (now.since_ms(then) - passed_ms(since)).abs() > JUMP_MS;
        if jumped {
            looks.ahead_ms = Some(0);
        }
        jumped
    }

    /// By how much at least whatever is to be dated back is ahead: until that has been done, however often it fails.
    pub fn to_date_back(&self) -> Option<i64> {
        self.looks().ahead_ms
    }

    pub fn dated_back(&self) {
        self.looks().ahead_ms = None;
    }

    /// For how long silence has meant anything.
    pub fn listening_ms(&self) -> i64 {
        passed_ms(self.listening().all)
    }

    /// For how long a node has to be silent to be stale, if silence means anything now. Whatever stands still elsewhere, after
    /// `missed_ms` more it holds nobody any longer.
    pub fn silence_ms(&self, stale_ms: i64, missed_ms: i64) -> Option<i64> {
        let (all, own) = {
            let listening = self.listening();
            (listening.all, listening.own)
        };
        silence_ms(passed_ms(all), passed_ms(own), stale_ms, missed_ms)
    }

    fn listening(&self) -> MutexGuard<'_, Listening> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Unwritten> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn passed_ms(since: Instant) -> i64 {
    i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX)
}

fn silence_ms(all_ms: i64, own_ms: i64, stale_ms: i64, missed_ms: i64) -> Option<i64> {
    let longest_ms = stale_ms.saturating_add(missed_ms);
    if all_ms >= stale_ms {
        Some(stale_ms)
    } else {
        (own_ms >= longest_ms).then_some(longest_ms)
    }
}

async fn write(pool: &PgPool, seen: &HashMap<NodeId, Heard>) -> sqlx::Result<HashSet<NodeId>> {
    if seen.is_empty() {
        return Ok(HashSet::new());
    }
    let ids: Vec<Uuid> = seen.keys().map(|id| id.uuid()).collect();
    let times: Vec<OffsetDateTime> = seen.values().map(|heard| heard.at.into()).collect();
    let manifests: Vec<Option<i64>> = seen.values().map(|heard| heard.manifest.map(|v| v as i64)).collect();
    let (sessions, asked): (Vec<Option<Uuid>>, Vec<Option<OffsetDateTime>>) = seen
        .values()
        .map(|heard| heard.session.map(|(id, at)| (id.uuid(), at.into())).unzip())
        .unzip();
    let written: Vec<Uuid> = sqlx::query_scalar(
        // Locked in the order of ids, as everybody locks; a row that somebody holds is heard again soon.
        "with heard as (select * from unnest($1::uuid[], $2::timestamptz[], $3::uuid[], $4::timestamptz[], $5::bigint[])
                            as heard (id, at, session_id, asked_at, manifest)),
              free as (select node.id from node join heard on heard.id = node.id
                       order by node.id for no key update of node skip locked)
         update node set last_seen_at = greatest(node.last_seen_at, heard.at),
             manifest_version = coalesce(heard.manifest, node.manifest_version),
             session_heard_at = case when node.session_id = heard.session_id
                 then greatest(node.session_heard_at, heard.asked_at) else node.session_heard_at end
         from heard join free on free.id = heard.id where node.id = heard.id returning node.id",
    )
    .bind(ids)
    .bind(times)
    .bind(sessions)
    .bind(asked)
    .bind(manifests)
    .fetch_all(pool)
    .await?;
    Ok(written.into_iter().map(NodeId::from).collect())
}

/// The nodes whose rows were free to be written; those that somebody holds come again, because a node that is well
/// says so only once. An older word never replaces a newer one: a node's beats may reach two processes of ours.
async fn write_conditions(pool: &PgPool, conditions: &HashMap<NodeId, Condition>) -> sqlx::Result<HashSet<NodeId>> {
    if conditions.is_empty() {
        return Ok(HashSet::new());
    }
    let ids: Vec<Uuid> = conditions.keys().map(|id| id.uuid()).collect();
    let values = || conditions.values();
    let times: Vec<OffsetDateTime> = values().map(|condition| condition.at.into()).collect();
    let told: Vec<_> = values().map(|condition| sqlx::types::Json(&condition.told)).collect();
    let troubles: Vec<Option<&str>> = values().map(|condition| condition.trouble.map(Code::as_str)).collect();
    let free: Vec<Uuid> = sqlx::query_scalar(
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
    .await?;
    Ok(free.into_iter().map(NodeId::from).collect())
}

#[cfg(test)]
mod tests;
