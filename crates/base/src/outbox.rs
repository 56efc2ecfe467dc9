//! Events: the outbox is the truth. One relay in the whole installation stamps `seq` onto committed rows; every process
//! then reads by `seq` and hands the events to whoever subscribed in it. A subscriber may see an event twice after a
//! restart and dedupes by id; it never misses one, because it can always read on from the last `seq` it has handled.

use std::sync::Arc;

use model::id::EventId;
use model::time::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sqlx::FromRow;
use time::OffsetDateTime;
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::db::Db;

mod reader;
mod relay;
mod tail;

pub use reader::{Next, Reader, Wanted};
pub use relay::{PRUNE, Pruned, STAMP, prune, relay, stamp_all};

/// How many events a slow subscriber may lag behind before it has to read them from the table itself.
const BUFFER: usize = 1024;

/// A committed event with its place in the order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    pub seq: i64,
    pub id: EventId,
    pub kind: String,
    pub subject_kind: String,
    pub subject_id: String,
    pub subject_version: Option<i64>,
    /// The project that it concerns, if it concerns one.
    pub project_id: Option<String>,
    pub data: Value,
    pub correlation_id: Uuid,
    pub at: Timestamp,
}

#[derive(FromRow)]
struct EventRow {
    seq: i64,
    id: Uuid,
    kind: String,
    subject_kind: String,
    subject_id: String,
    subject_version: Option<i64>,
    project_id: Option<String>,
    data: Value,
    correlation_id: Uuid,
    created_at: OffsetDateTime,
}

impl From<EventRow> for Event {
    fn from(row: EventRow) -> Self {
        Self {
            seq: row.seq,
            id: row.id.into(),
            kind: row.kind,
            subject_kind: row.subject_kind,
            subject_id: row.subject_id,
            subject_version: row.subject_version,
            project_id: row.project_id,
            data: row.data,
            correlation_id: row.correlation_id,
            at: row.created_at.into(),
        }
    }
}

/// Where the events of this process are heard.
#[derive(Clone, Debug)]
pub struct Bus {
    db: Db,
    sender: broadcast::Sender<Arc<Event>>,
    /// The newest event when the bus was opened: everything later is handed out.
    opened_at: i64,
}

impl Bus {
    pub async fn open(db: Db) -> sqlx::Result<Self> {
        let opened_at = last_seq(&db).await?;
        Ok(Self {
            db,
            sender: broadcast::Sender::new(BUFFER),
            opened_at,
        })
    }

    /// Events from now on. A receiver that lags reads `events_after` the last one it had.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.sender.subscribe()
    }
}

/// Events after `seq`, oldest first, whatever they are about.
pub async fn events_after(db: &Db, seq: i64, limit: i64) -> sqlx::Result<Vec<Event>> {
    let rows: Vec<EventRow> = sqlx::query_as(
        "select seq, id, kind, subject_kind, subject_id, subject_version, project_id, data, correlation_id, created_at
         from outbox where seq > $1 order by seq limit $2",
    )
    .bind(seq)
    .bind(limit)
    .fetch_all(db.read())
    .await?;
    Ok(rows.into_iter().map(Event::from).collect())
}

/// When this event was written; none if it is not there, or no longer.
pub async fn written_at(db: &Db, seq: i64) -> sqlx::Result<Option<Timestamp>> {
    let at: Option<OffsetDateTime> = sqlx::query_scalar("select created_at from outbox where seq = $1")
        .bind(seq)
        .fetch_optional(db.read())
        .await?;
    Ok(at.map(Into::into))
}

/// The newest stamped event; 0 if there is none.
pub async fn last_seq(db: &Db) -> sqlx::Result<i64> {
    sqlx::query_scalar("select coalesce(max(seq), 0) from outbox")
        .fetch_one(db.read())
        .await
}
