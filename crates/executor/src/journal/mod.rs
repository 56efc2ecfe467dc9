//! The executor's memory and its outbox: nothing happens on this node that was not written here first, and a result
//! stays until the control plane has it. A torn tail is cut, because nothing was done on its word; a hole in the
//! middle is reported and stops everything, because something was.

mod book;
#[cfg(test)]
mod damage;
mod entry;
mod frame;
mod replay;
mod tape;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use model::signal::Code;
use model::time::Timestamp;

pub(crate) use book::{Book, Finished, Known, Open, Task};
pub(crate) use entry::{Claimed, Done, Entry, Floor, Started, Step};
use tape::{Tape, TapeError};

/// Above this no new task is taken: what runs has to be able to finish.
const CLAIM_LIMIT_PCT: u32 = 75;
/// Above this, and twice as full as after the last time, it is compacted.
const COMPACT_PCT: u32 = 50;
const MAKE_ROOM_EVERY_MS: i64 = 10_000;

#[derive(Debug)]
pub(crate) struct Journal {
    tape: Tape,
    book: Book,
    /// How full the last compaction left it.
    compacted_to: u64,
    made_room_at: Option<Timestamp>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    #[error("the journal cannot be read or written")]
    Io(#[source] io::Error),
    /// Something durable is gone or not understood. Only a person can decide what it was.
    #[error("the journal is damaged: {0}")]
    Corrupt(String),
    #[error("the journal has no room left")]
    Full,
}

/// A record with another body, under the same number and kind; none if it is no record.
pub(crate) fn sealed(record: &[u8], body: &[u8]) -> Option<Vec<u8>> {
    let found = frame::decode(record)?;
    Some(frame::encode(found.seq, found.kind, body))
}

impl JournalError {
    pub(crate) fn code(&self) -> Code {
        match self {
            JournalError::Io(_) => Code::DiskFull,
            JournalError::Corrupt(_) => Code::JournalCorrupt,
            JournalError::Full => Code::JournalFull,
        }
    }
}

impl From<TapeError> for JournalError {
    fn from(error: TapeError) -> Self {
        match error {
            TapeError::Io(error) => JournalError::Io(error),
            TapeError::Broken => JournalError::Io(io::Error::other(error)),
            TapeError::Corrupt { .. } => JournalError::Corrupt(error.to_string()),
            TapeError::Full(_) => JournalError::Full,
        }
    }
}

impl Journal {
    pub(crate) fn open(dir: &Path, size: u64) -> Result<Self, JournalError> {
        let (tape, found) = Tape::open(dir, size)?;
        let book = replay::add_up(&found).map_err(JournalError::Corrupt)?;
        Ok(Self {
            tape,
            book,
            compacted_to: 0,
            made_room_at: None,
        })
    }

    pub(crate) fn book(&self) -> &Book {
        &self.book
    }

    /// Writes the entry down, then knows it. Returns its number.
    pub(crate) fn append(&mut self, entry: Entry, clock: Timestamp) -> Result<u64, JournalError> {
        if self.used_pct() >= COMPACT_PCT && self.tape.used() >= 2 * self.compacted_to {
            self.compact(clock)?;
        }
        let body = entry.body().map_err(|error| JournalError::Corrupt(error.to_string()))?;
        let kind = entry.kind();
        let seq = match self.tape.append(kind, &body) {
            Err(TapeError::Full(_)) => {
                self.compact(clock)?;
                self.tape.append(kind, &body)?
            }
            appended => appended?,
        };
        self.book.apply(entry).map_err(JournalError::Corrupt)?;
        Ok(seq)
    }

    /// The number that the next entry will have; compaction writes first, so ask under the same lock as `append`.
    pub(crate) fn next_seq(&self) -> u64 {
        self.tape.next_seq()
    }

    pub(crate) fn used_pct(&self) -> u32 {
        u32::try_from(self.tape.used() * 100 / self.tape.size().max(1)).unwrap_or(100)
    }

    pub(crate) fn takes_claims(&self) -> bool {
        self.used_pct() < CLAIM_LIMIT_PCT
    }

    /// Before a claim is turned away: time alone may have made most of it needless. Not more often than now and then,
    /// because it writes the whole file.
    pub(crate) fn make_room(&mut self, clock: Timestamp) -> Result<(), JournalError> {
        let lately = |at: Timestamp| clock.since_ms(at).abs() < MAKE_ROOM_EVERY_MS;
        if self.takes_claims() || self.made_room_at.is_some_and(lately) {
            return Ok(());
        }
        self.made_room_at = Some(clock);
        self.compact(clock)
    }

    /// Writes down again only what is still needed.
    pub(crate) fn compact(&mut self, clock: Timestamp) -> Result<(), JournalError> {
        let mut book = self.book.clone();
        book.forget(clock);
        let mut bodies = written(&book)?;
        let bytes: usize = bodies.iter().map(|(_, body)| body.len()).sum();
        if bytes as u64 * 100 > self.tape.size() * u64::from(COMPACT_PCT) {
            book.shed();
            bodies = written(&book)?;
        }
        self.tape.replace(&bodies)?;
        self.book = book;
        self.compacted_to = self.tape.used();
        tracing::info!(used_pct = self.used_pct(), "journal compacted");
        Ok(())
    }
}

fn written(book: &Book) -> Result<Vec<(u8, Vec<u8>)>, JournalError> {
    let entries = book.entries().into_iter();
    let bodies = entries.map(|entry| entry.body().map(|body| (entry.kind(), body)));
    bodies
        .collect::<Result<_, _>>()
        .map_err(|error| JournalError::Corrupt(error.to_string()))
}
