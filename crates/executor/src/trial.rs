//! The executor's judgement without an executor around it, for whoever attacks it a million times: the code that
//! judges an offer, over an empty journal in memory, and the code that reads a journal. Nothing is run, and nothing is
//! written but the journal that a test asks for.

use std::path::Path;

use model::dsse::Envelope;
use model::envelope::Identity;
use model::id::TaskId;
use model::signal::Code;
use model::task::TaskType;
use model::time::Timestamp;
use model::trust::Trust;

use crate::journal::{Book, Claimed, Done, Entry, Journal, JournalError, Started};
use crate::policy::Policy;
use crate::verify::{Here, Offer, Verdict, judge};

/// One node that has never done anything.
pub struct Trial {
    trust: Trust,
    me: Identity,
    policy: Policy,
    book: Book,
    clock: Timestamp,
}

impl Trial {
    pub fn new(trust: Trust, me: Identity, clock: Timestamp) -> Self {
        Self {
            trust,
            me,
            policy: Policy::default(),
            book: Book::new(),
            clock,
        }
    }

    /// The type that would now be run, or why nothing would.
    pub fn judge(&self, task_id: TaskId, envelope: Envelope) -> Result<TaskType, Code> {
        let here = Here {
            trust: &self.trust,
            me: self.me,
            policy: &self.policy,
            book: &self.book,
            clock: self.clock,
            running: &[],
            no_room: None,
        };
        let offer = Offer {
            task_id,
            fence: 1,
            envelope,
            server_time: self.clock,
        };
        match judge(&offer, &here) {
            Verdict::Take { task, .. } => Ok(task.task_type()),
            Verdict::Refused(refused) => Err(refused.refusal.code),
            Verdict::NotNow(code) => Err(code),
            // The book is empty, so nothing is known from before.
            Verdict::Running { .. } | Verdict::Finished { .. } => Err(Code::Internal),
        }
    }
}

/// A journal in `dir` in which these tasks were taken and begun, and every second one ended with this result.
pub fn write_journal(
    dir: &Path,
    size: u64,
    tasks: &[(TaskId, Envelope)],
    result: &Envelope,
    now: Timestamp,
) -> anyhow::Result<()> {
    let mut journal = Journal::open(dir, size)?;
    for (n, (task_id, envelope)) in tasks.iter().enumerate() {
        let (task_id, fence) = (*task_id, n as u64 + 1);
        let claimed = Claimed {
            task_id,
            fence,
            claimed_at: now,
            subjects: vec![format!("user/{n}")],
            clock_skew_ms: 0,
            envelope: envelope.clone(),
        };
        journal.append(Entry::Claimed(claimed), now)?;
        journal.append(Entry::Started(Started { task_id, at: now }), now)?;
        if n % 2 == 1 {
            let done = Done {
                task_id,
                fence,
                payload_sha256: envelope.payload_digest(),
                refused: false,
                start_by: now.plus_s(600),
                started_at: Some(now),
                result: result.clone(),
            };
            journal.append(Entry::Done(done), now)?;
        }
    }
    Ok(())
}

/// A journal's record with another content under the same number, and a checksum that fits.
pub fn sealed_record(record: &[u8], body: &[u8]) -> Option<Vec<u8>> {
    crate::journal::sealed(record, body)
}

/// What the journal in `dir` adds up to, as text to compare, or why it is not believed.
pub fn read_journal(dir: &Path, size: u64) -> Result<String, Code> {
    let journal = Journal::open(dir, size).map_err(|error: JournalError| error.code())?;
    Ok(format!("{:?}", journal.book()))
}
