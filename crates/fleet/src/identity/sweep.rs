//! The sweep of the identity table. Every pass covers every live certificate and every node, but what is unchanged is
//! not read again: the database adds up each of 256 parts of the fleet, and only parts whose sum is another one are
//! fetched. What this process has put into the table by itself in between is fetched too, whatever the sum says.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use model::id::NodeId;
use model::time::Timestamp;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{IdentityTable, NodeEntry, NodeRow, Serial, Standing, entry};

/// Which part of the fleet a node belongs to: ids end at random.
pub(super) fn part(node: Option<NodeId>) -> u8 {
    node.map_or(0, |node| node.uuid().as_bytes()[15])
}

/// A part's rows, added up: how many, and their hashes combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    rows: i64,
    hash: i64,
}

impl Sum {
    fn add(&mut self, hash: i64) {
        self.rows += 1;
        self.hash ^= hash;
    }
}

/// Of certificates and of nodes, by part. Parts without rows have no sum.
#[derive(Debug, Default)]
pub(super) struct Sums {
    certificates: HashMap<u8, Sum>,
    nodes: HashMap<u8, Sum>,
}

impl Sums {
    /// Parts that are not what they were.
    fn differ(&self, then: &Self) -> HashSet<u8> {
        let differ = |now: &HashMap<u8, Sum>, then: &HashMap<u8, Sum>| -> Vec<u8> {
            let known = now.keys().chain(then.keys());
            known.filter(|part| now.get(part) != then.get(part)).copied().collect()
        };
        let mut parts: HashSet<u8> = differ(&self.certificates, &then.certificates).into_iter().collect();
        parts.extend(differ(&self.nodes, &then.nodes));
        parts
    }

    /// What was just read counts, not what the sums said a moment before: something may have changed in between.
    fn put(&mut self, parts: &HashSet<u8>, read: Sums) {
        self.certificates.retain(|part, _| !parts.contains(part));
        self.nodes.retain(|part, _| !parts.contains(part));
        self.certificates.extend(read.certificates);
        self.nodes.extend(read.nodes);
    }
}

/// The rows of some parts.
#[derive(Default)]
struct Read {
    live: HashMap<Serial, Standing>,
    nodes: HashMap<NodeId, NodeEntry>,
    sums: Sums,
}

/// What has been put into the table since the last sweep; it stays so unless a sweep has read it anew, also when that is
/// given up in the middle.
struct Touched<'a> {
    table: &'a IdentityTable,
    parts: HashSet<u8>,
}

impl<'a> Touched<'a> {
    fn take(table: &'a IdentityTable) -> Self {
        let parts = std::mem::take(&mut table.write().touched);
        Self { table, parts }
    }
}

impl Drop for Touched<'_> {
    fn drop(&mut self) {
        if !self.parts.is_empty() {
            self.table.write().touched.extend(self.parts.drain());
        }
    }
}

impl IdentityTable {
    /// Makes the table current and says whose entry is not what it was. The moment that counts is the one before the
    /// first query; times are compared with our own clock, as everywhere, and not with the database's.
    pub async fn refresh(&self, pool: &PgPool, now: Timestamp) -> sqlx::Result<HashSet<NodeId>> {
        let began = Instant::now();
        let first = self.read().swept.is_none();
        let mut touched = Touched::take(self);
        let mut parts = touched.parts.clone();
        if first {
            parts.extend(0..=u8::MAX);
        } else {
            let sums = sums(pool, now).await?;
            parts.extend(sums.differ(&self.read().sums));
        }
        let read = match parts.is_empty() {
            true => Read::default(),
            false => rows(pool, now, &parts).await?,
        };
        touched.parts.clear();
        Ok(self.take_in(began, &parts, read))
    }

    fn take_in(&self, began: Instant, parts: &HashSet<u8>, read: Read) -> HashSet<NodeId> {
        let mut table = self.write();
        let mut changed = HashSet::new();
        if !parts.is_empty() {
            table.live.retain(|serial, standing| {
                let node = standing.node;
                let stays = !parts.contains(&part(node));
                if !stays && !read.live.contains_key(serial) {
                    changed.extend(node);
                }
                stays
            });
            table.nodes.retain(|node, entry| {
                let stays = !parts.contains(&part(Some(*node)));
                if !stays && read.nodes.get(node) != Some(entry) {
                    changed.insert(*node);
                }
                stays
            });
            table.live.extend(read.live);
            table.nodes.extend(read.nodes);
            table.sums.put(parts, read.sums);
        }
        table.swept = Some(began);
        changed
    }
}

async fn sums(pool: &PgPool, now: Timestamp) -> sqlx::Result<Sums> {
    let certificates = sqlx::query_as(
        "select coalesce(get_byte(uuid_send(node_id), 15), 0), count(*), bit_xor(hash_record_extended((serial, node_id, epoch, first_used_at is null), 0))
         from certificate where revoked_at is null and kind <> 'device' and not_after > $1
           and (ends_at is null or ends_at > $1) group by 1",
    )
    .bind(OffsetDateTime::from(now))
    .fetch_all(pool)
    .await?;
    let nodes = sqlx::query_as(
        "select get_byte(uuid_send(id), 15), count(*), bit_xor(hash_record_extended((id, epoch, state, session_id, quarantine_code), 0))
         from node where state <> 'removed' group by 1",
    )
    .fetch_all(pool)
    .await?;
    let by_part = |sums: Vec<(i32, i64, i64)>| {
        let sums = sums.into_iter();
        sums.map(|(part, rows, hash)| (part as u8, Sum { rows, hash }))
            .collect()
    };
    Ok(Sums {
        certificates: by_part(certificates),
        nodes: by_part(nodes),
    })
}

type LiveRow = (String, Option<Uuid>, Option<i64>, bool, i64);
type HereRow = (Uuid, i64, String, Option<Uuid>, Option<String>, i64);

async fn rows(pool: &PgPool, now: Timestamp, parts: &HashSet<u8>) -> sqlx::Result<Read> {
    let wanted: Vec<i32> = parts.iter().map(|part| i32::from(*part)).collect();
    let certificates: Vec<LiveRow> = sqlx::query_as(
        "select serial, node_id, epoch, first_used_at is not null, hash_record_extended((serial, node_id, epoch, first_used_at is null), 0)
         from certificate where revoked_at is null and kind <> 'device' and not_after > $1
           and (ends_at is null or ends_at > $1) and coalesce(get_byte(uuid_send(node_id), 15), 0) = any($2)",
    )
    .bind(OffsetDateTime::from(now))
    .bind(&wanted)
    .fetch_all(pool)
    .await?;
    let nodes: Vec<HereRow> = sqlx::query_as(
        "select id, epoch, state, session_id, quarantine_code, hash_record_extended((id, epoch, state, session_id, quarantine_code), 0)
         from node where state <> 'removed' and get_byte(uuid_send(id), 15) = any($1)",
    )
    .bind(&wanted)
    .fetch_all(pool)
    .await?;
    let mut read = Read::default();
    for (serial, node, epoch, used, hash) in certificates {
        let node = node.map(NodeId::from);
        read.sums.certificates.entry(part(node)).or_default().add(hash);
        let standing = Standing::new(node, epoch, used);
        read.live.extend(Serial::of(&serial).map(|serial| (serial, standing)));
    }
    for (id, epoch, state, session_id, quarantine_code, hash) in nodes {
        let row = NodeRow {
            epoch,
            state,
            session_id,
            quarantine_code,
        };
        let node = NodeId::from(id);
        read.sums.nodes.entry(part(Some(node))).or_default().add(hash);
        read.nodes.extend(entry(&row).map(|entry| (node, entry)));
    }
    Ok(read)
}
