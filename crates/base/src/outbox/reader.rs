//! One who follows events from a place on. What is there already comes from the table, what is new from the bus; a
//! follower who is too slow for the bus goes back to the table, so that nothing is kept for anybody and nothing is left
//! out. Whoever follows a few projects only is not made to read everybody's past.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;

use super::{Bus, Event, EventRow, last_seq};
use crate::db::Db;

const BATCH: usize = 200;

/// What of the past is read at all. What is new passes by unasked: whoever reads judges each event anyway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of these projects only.
    pub projects: Option<Vec<String>>,
    /// About this one only: its kind and its id.
    pub subject: Option<(String, String)>,
}

/// What a reader comes upon.
#[derive(Debug)]
pub enum Next {
    Event(Arc<Event>),
    /// It has to look back as far as this. What is wanted is asked only now: whatever was let in by then, in an event up
    /// to here, is known by now.
    Behind(i64),
}

pub struct Reader {
    db: Db,
    live: tokio::sync::broadcast::Receiver<Arc<Event>>,
    past: VecDeque<Arc<Event>>,
    /// Everything up to here was handed out or was not wanted.
    at: i64,
    /// Where `at` is once `past` is handed out.
    past_until: i64,
    behind: bool,
}

impl Reader {
    /// From `after` on, or from now.
    pub async fn open(bus: &Bus, after: Option<i64>) -> sqlx::Result<Self> {
        // Heard first, looked second: between the two nothing is missed.
        let live = bus.subscribe();
        let newest = last_seq(&bus.db).await?;
        let at = after.unwrap_or(newest);
        Ok(Self {
            db: bus.db.clone(),
            live,
            past: VecDeque::new(),
            at,
            past_until: at,
            behind: at < newest,
        })
    }

    /// Everything up to this one was seen.
    pub fn at(&self) -> i64 {
        self.at
    }

    /// What comes next. Whoever stops waiting for it loses nothing.
    pub async fn next(&mut self) -> sqlx::Result<Next> {
        loop {
            if let Some(event) = self.past.pop_front() {
                self.at = event.seq;
                return Ok(Next::Event(event));
            }
            self.at = self.at.max(self.past_until);
            if self.behind {
                return Ok(Next::Behind(last_seq(&self.db).await?));
            }
            match self.live.recv().await {
                Ok(event) if event.seq <= self.at => {}
                Ok(event) if event.seq == self.at + 1 => {
                    self.at = event.seq;
                    return Ok(Next::Event(event));
                }
                Ok(_) | Err(RecvError::Lagged(_)) => self.behind = true,
                // The bus lives as long as the process.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Reads on in the table, as far as `next` has said.
    pub async fn look_back(&mut self, until: i64, wanted: &Wanted) -> sqlx::Result<()> {
        let rows = past(&self.db, self.at, until, wanted).await?;
        let more = rows.len() == BATCH;
        self.past = rows.into_iter().map(|row| Arc::new(row.into())).collect();
        self.past_until = match self.past.back() {
            Some(last) if more => last.seq,
            _ => until,
        };
        self.behind = more;
        Ok(())
    }
}

async fn past(db: &Db, after: i64, until: i64, wanted: &Wanted) -> sqlx::Result<Vec<EventRow>> {
    let (kind, id) = wanted.subject.clone().unzip();
    sqlx::query_as(
        "select seq, id, kind, subject_kind, subject_id, subject_version, project_id, data, correlation_id, created_at
         from outbox
         where seq > $1 and seq <= $2 and ($3::text[] is null or project_id = any($3))
           and ($4::text is null or (subject_kind = $4 and subject_id = $5))
         order by seq limit $6",
    )
    .bind(after)
    .bind(until)
    .bind(wanted.projects.as_deref())
    .bind(kind)
    .bind(id)
    .bind(BATCH as i64)
    .fetch_all(db.read())
    .await
}
