//! A journal read again. Most of a full one is about tasks that are over: of those their end is decoded, and of the way
//! there only what outlasts it, so that a start does not take apart what nobody will ask for. What does not fit together
//! is found all the same.

use std::borrow::Cow;
use std::collections::HashSet;
use std::vec;

use data_encoding::BASE64;
use model::id::TaskId;
use model::time::Timestamp;
use serde::Deserialize;

use super::book::Book;
use super::entry::{self, Done, Entry};
use super::tape::Found;

/// The book that these records add up to.
pub(super) fn add_up(found: &Found) -> Result<Book, String> {
    let mut ends = Vec::new();
    for (seq, kind, body) in found.records() {
        if kind == entry::DONE {
            let entry = Entry::parse(kind, body).map_err(|why| at(seq, &why))?;
            ends.extend(match entry {
                Entry::Done(done) => Some(done),
                _ => None,
            });
        }
    }
    let over = ends.iter().filter(|done| !done.refused).map(|done| done.task_id);
    let mut replay = Replay {
        book: Book::new(),
        over: over.collect(),
        passing: HashSet::new(),
        ends: ends.into_iter(),
    };
    for (seq, kind, body) in found.records() {
        replay.read(kind, body).map_err(|why| at(seq, &why))?;
    }
    Ok(replay.book)
}

fn at(seq: u64, why: &str) -> String {
    format!("record {seq}: {why}")
}

struct Replay {
    book: Book,
    /// Tasks whose end is somewhere in this journal.
    over: HashSet<TaskId>,
    /// Those of them that were claimed in what has been read, and whose end has not come yet.
    passing: HashSet<TaskId>,
    ends: vec::IntoIter<Done>,
}

/// Of a step or a start nothing else is looked at.
#[derive(Deserialize)]
struct Named {
    task_id: TaskId,
}

#[derive(Deserialize)]
struct Taken<'a> {
    task_id: TaskId,
    #[serde(alias = "subject", deserialize_with = "entry::none_one_or_many")]
    subjects: Vec<String>,
    #[serde(borrow)]
    envelope: Sealed<'a>,
}

#[derive(Deserialize)]
struct Sealed<'a> {
    #[serde(borrow)]
    payload: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Order {
    seq: u64,
    issued_at: Timestamp,
}

impl Replay {
    fn read(&mut self, kind: u8, body: &[u8]) -> Result<(), String> {
        let done = match kind {
            entry::CLAIMED => self.claimed(body)?,
            entry::STARTED | entry::STEP | entry::UNDO | entry::STUCK => {
                let Named { task_id } = skim(kind, body)?;
                self.passing.contains(&task_id)
            }
            entry::DONE => {
                let done = self.ends.next().ok_or("an end that was not there before")?;
                self.passing.remove(&done.task_id);
                self.book.apply(Entry::Done(done))?;
                true
            }
            _ => false,
        };
        if done {
            return Ok(());
        }
        self.book.apply(Entry::parse(kind, body)?)
    }

    /// True: its end is known, and there is no more to it.
    fn claimed(&mut self, body: &[u8]) -> Result<bool, String> {
        let taken: Taken<'_> = skim(entry::CLAIMED, body)?;
        let id = taken.task_id;
        if !self.over.contains(&id) || self.book.task(id).is_some() {
            return Ok(false);
        }
        if !self.passing.insert(id) {
            return Err(format!("{id} is claimed twice"));
        }
        let payload = BASE64.decode(taken.envelope.payload.as_bytes());
        let payload = payload.map_err(|error| error.to_string())?;
        let order: Order = skim(entry::CLAIMED, &payload)?;
        self.book.rise(taken.subjects, order.seq, order.issued_at);
        Ok(true)
    }
}

fn skim<'a, T: Deserialize<'a>>(kind: u8, body: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| entry::unreadable(kind, &error))
}
