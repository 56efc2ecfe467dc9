//! What the journal adds up to: every task that is held or still has to be recognised, and the floor. It only changes
//! by an entry that is durable, and it can write itself down again as the fewest entries that add up to the same.

use std::collections::BTreeMap;

use model::digest::Sha256;
use model::dsse::{self, Envelope};
use model::envelope::{CLOCK_TOLERANCE_S, MAX_START_S, TaskPayload};
use model::id::TaskId;
use model::time::Timestamp;

use super::entry::{Acked, Claimed, Done, Entry, Floor, LastSeq, Started, Step};

#[derive(Debug, Clone)]
pub(crate) struct Book {
    tasks: BTreeMap<TaskId, Task>,
    /// Never taken, and signed so: by name and bytes, for a forgery must not stand in the way of what it imitates.
    refused: BTreeMap<(TaskId, Sha256), Finished>,
    floor: Floor,
}

#[derive(Debug, Clone)]
pub(crate) enum Task {
    Open(Box<Open>),
    Finished(Finished),
}

/// What has been answered for the very bytes of an offer.
pub(crate) enum Known<'a> {
    Open(&'a Open),
    Finished(&'a Finished),
}

/// Taken and not over.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    pub(crate) claimed: Claimed,
    pub(crate) payload: TaskPayload,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) records: Vec<steps::Record>,
}

#[derive(Debug, Clone)]
pub(crate) struct Finished {
    pub(crate) fence: u64,
    pub(crate) payload_sha256: Sha256,
    pub(crate) refused: bool,
    pub(crate) start_by: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
    /// None once it was acknowledged and the room was needed.
    pub(crate) result: Option<Envelope>,
    pub(crate) acked: Option<u16>,
}

impl Finished {
    pub(crate) fn pending(&self) -> bool {
        self.acked.is_none()
    }

    fn entries(&self, task_id: TaskId) -> impl Iterator<Item = Entry> {
        let done = self.result.clone().map(|result| {
            Entry::Done(Done {
                task_id,
                fence: self.fence,
                payload_sha256: self.payload_sha256,
                refused: self.refused,
                start_by: self.start_by,
                started_at: self.started_at,
                result,
            })
        });
        let acked = self.acked.map(|status| self.acknowledged(task_id, status));
        done.into_iter().chain(acked)
    }

    pub(crate) fn acknowledged(&self, task_id: TaskId, status: u16) -> Entry {
        Entry::Acked(Acked {
            task_id,
            payload_sha256: self.payload_sha256,
            refused: self.refused,
            status,
            start_by: self.start_by,
        })
    }
}

impl Book {
    pub(crate) fn new() -> Self {
        let (time, seqs) = (Timestamp::from_millis(0), BTreeMap::new());
        let floor = Floor { time, epoch: 0, seqs };
        Self {
            tasks: BTreeMap::new(),
            refused: BTreeMap::new(),
            floor,
        }
    }

    pub(crate) fn task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(&id)
    }

    /// Asked before anything else: what is known never gets a second verdict.
    pub(crate) fn known(&self, id: TaskId, payload: &Sha256) -> Option<Known<'_>> {
        match self.tasks.get(&id) {
            Some(Task::Open(open)) if open.claimed.envelope.payload_digest() == *payload => Some(Known::Open(open)),
            Some(Task::Finished(finished)) if finished.payload_sha256 == *payload => Some(Known::Finished(finished)),
            Some(_) | None => self.refused.get(&(id, *payload)).map(Known::Finished),
        }
    }

    pub(crate) fn tasks(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        self.tasks.iter().map(|(id, task)| (*id, task))
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = (TaskId, &Open)> {
        self.tasks().filter_map(|(id, task)| match task {
            Task::Open(open) => Some((id, &**open)),
            Task::Finished(_) => None,
        })
    }

    /// Results that the control plane has not answered, refusals last.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (TaskId, &Finished)> {
        let done = self.tasks().filter_map(|(id, task)| match task {
            Task::Finished(finished) => Some((id, finished)),
            Task::Open(_) => None,
        });
        let refused = self.refused.iter().map(|((id, _), finished)| (*id, finished));
        done.chain(refused).filter(|(_, finished)| finished.pending())
    }

    pub(crate) fn floor(&self) -> &Floor {
        &self.floor
    }

    /// An entry that does not fit what came before says so: then something before it is missing.
    pub(super) fn apply(&mut self, entry: Entry) -> Result<(), String> {
        match entry {
            Entry::Claimed(claimed) => self.claim(claimed),
            Entry::Started(Started { task_id, at }) => {
                self.open_mut(task_id)?.started_at = Some(at);
                Ok(())
            }
            Entry::Step(Step { task_id, record }) => {
                self.open_mut(task_id)?.records.push(record);
                Ok(())
            }
            Entry::Done(Done {
                task_id,
                fence,
                payload_sha256,
                refused,
                start_by,
                started_at,
                result,
            }) => {
                let (result, acked) = (Some(result), None);
                let finished = Finished {
                    fence,
                    payload_sha256,
                    refused,
                    start_by,
                    started_at,
                    result,
                    acked,
                };
                if refused {
                    self.refused.insert((task_id, payload_sha256), finished);
                } else {
                    self.tasks.insert(task_id, Task::Finished(finished));
                }
                Ok(())
            }
            Entry::Acked(acked) => self.ack(&acked),
            Entry::Floor(floor) => {
                let time = self.floor.time.max(floor.time);
                self.floor = Floor { time, ..floor };
                Ok(())
            }
        }
    }

    fn claim(&mut self, claimed: Claimed) -> Result<(), String> {
        let bytes = claimed.envelope.payload_unverified().map_err(|code| code.to_string())?;
        let payload: TaskPayload = dsse::parse_payload(&bytes).map_err(|(_, why)| why)?;
        self.rise(claimed.subjects.clone(), payload.seq, payload.issued_at);
        let id = claimed.task_id;
        let open = Open {
            claimed,
            payload,
            started_at: None,
            records: Vec::new(),
        };
        match self.tasks.insert(id, Task::Open(Box::new(open))) {
            None => Ok(()),
            Some(_) => Err(format!("{id} is claimed twice")),
        }
    }

    /// What a claim says to all that come later, however it ends.
    pub(super) fn rise(&mut self, subjects: Vec<String>, seq: u64, issued_at: Timestamp) {
        self.floor.time = self.floor.time.max(issued_at);
        let until = issued_at.plus_s(MAX_START_S);
        let lasts = subjects.into_iter().map(|subject| (subject, LastSeq { seq, until }));
        self.floor.seqs.extend(lasts);
    }

    fn ack(&mut self, acked: &Acked) -> Result<(), String> {
        let id = acked.task_id;
        if acked.refused {
            let refused = self.refused.get_mut(&(id, acked.payload_sha256));
            let refused = refused.ok_or_else(|| format!("{id} is acknowledged without having been refused"))?;
            refused.acked = Some(acked.status);
            return Ok(());
        }
        match self.tasks.get_mut(&id) {
            Some(Task::Finished(finished)) => finished.acked = Some(acked.status),
            Some(Task::Open(_)) => return Err(format!("{id} is acknowledged before it is done")),
            None => {
                // Its result was let go when the room was needed.
                let finished = Finished {
                    fence: 0,
                    payload_sha256: acked.payload_sha256,
                    refused: false,
                    start_by: acked.start_by,
                    started_at: None,
                    result: None,
                    acked: Some(acked.status),
                };
                self.tasks.insert(id, Task::Finished(finished));
            }
        }
        Ok(())
    }

    fn open_mut(&mut self, id: TaskId) -> Result<&mut Open, String> {
        match self.tasks.get_mut(&id) {
            Some(Task::Open(open)) => Ok(open),
            Some(Task::Finished(_)) => Err(format!("{id} goes on after it was done")),
            None => Err(format!("{id} goes on without having been claimed")),
        }
    }

    /// Lets go of what can no longer be offered. The floor rises to the last moment at which it could have been, so
    /// that a clock which goes back afterwards brings nothing back.
    pub(super) fn forget(&mut self, clock: Timestamp) {
        let now = clock.max(self.floor.time);
        let past = |horizon: Timestamp| now > horizon.plus_s(CLOCK_TOLERANCE_S);
        let mut floor = self.floor.time;
        let mut needed = |finished: &Finished| {
            let over = !finished.pending() && past(finished.start_by);
            if over {
                floor = floor.max(finished.start_by.plus_ms(1));
            }
            !over
        };
        self.tasks.retain(|_, task| match task {
            Task::Finished(finished) => needed(finished),
            Task::Open(_) => true,
        });
        self.refused.retain(|_, finished| needed(finished));
        self.floor.seqs.retain(|_, last| {
            let keep = !past(last.until);
            if !keep {
                floor = floor.max(last.until.plus_ms(1));
            }
            keep
        });
        self.floor.time = floor;
    }

    /// Lets go of results that the control plane has. Their tasks are still recognised. Refusals are small and stay.
    pub(super) fn shed(&mut self) {
        for task in self.tasks.values_mut() {
            if let Task::Finished(finished) = task
                && !finished.pending()
            {
                (finished.fence, finished.started_at, finished.result) = (0, None, None);
            }
        }
    }

    /// The fewest entries that add up to this book.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (task_id, task) in self.tasks() {
            match task {
                Task::Open(open) => {
                    entries.push(Entry::Claimed(open.claimed.clone()));
                    let started = open.started_at.map(|at| Entry::Started(Started { task_id, at }));
                    entries.extend(started);
                    let steps = open.records.iter().cloned();
                    entries.extend(steps.map(|record| Entry::Step(Step { task_id, record })));
                }
                Task::Finished(finished) => entries.extend(finished.entries(task_id)),
            }
        }
        let refused = self.refused.iter();
        entries.extend(refused.flat_map(|((id, _), finished)| finished.entries(*id)));
        // Last, because claiming raises the floor and sets numbers; here they are as they were.
        entries.push(Entry::Floor(self.floor.clone()));
        entries
    }
}
