//! What the journal adds up to: every task that is held or still has to be recognised, and the floor. It only changes
//! by an entry that is durable, and it can write itself down again as the fewest entries that add up to the same.

use std::collections::BTreeMap;

use model::dsse::{self, Envelope};
use model::envelope::{CLOCK_TOLERANCE_S, MAX_START_S, TaskPayload};
use model::id::TaskId;
use model::time::Timestamp;

use super::entry::{Acked, Claimed, Done, Entry, Floor, LastSeq, Started, Step};

#[derive(Debug, Clone)]
pub(crate) struct Book {
    tasks: BTreeMap<TaskId, Task>,
    floor: Floor,
}

#[derive(Debug, Clone)]
pub(crate) enum Task {
    Open(Box<Open>),
    Finished(Finished),
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
}

impl Book {
    pub(super) fn new() -> Self {
        let (time, seqs) = (Timestamp::from_millis(0), BTreeMap::new());
        let floor = Floor { time, epoch: 0, seqs };
        Self {
            tasks: BTreeMap::new(),
            floor,
        }
    }

    pub(crate) fn task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(&id)
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

    /// Results that the control plane has not answered.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (TaskId, &Finished)> {
        self.tasks().filter_map(|(id, task)| match task {
            Task::Finished(finished) if finished.pending() => Some((id, finished)),
            Task::Open(_) | Task::Finished(_) => None,
        })
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
                start_by,
                started_at,
                result,
            }) => {
                let (result, acked) = (Some(result), None);
                let finished = Finished {
                    fence,
                    start_by,
                    started_at,
                    result,
                    acked,
                };
                self.tasks.insert(task_id, Task::Finished(finished));
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
        self.floor.time = self.floor.time.max(payload.issued_at);
        if let Some(subject) = &claimed.subject {
            let until = payload.issued_at.plus_s(MAX_START_S);
            let last = LastSeq {
                seq: payload.seq,
                until,
            };
            self.floor.seqs.insert(subject.clone(), last);
        }
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

    fn ack(&mut self, acked: &Acked) -> Result<(), String> {
        let id = acked.task_id;
        match self.tasks.get_mut(&id) {
            Some(Task::Finished(finished)) => finished.acked = Some(acked.status),
            Some(Task::Open(_)) => return Err(format!("{id} is acknowledged before it is done")),
            None => {
                // Its result was let go when the room was needed.
                let (start_by, status) = (acked.start_by, acked.status);
                let (fence, started_at, result) = (0, None, None);
                let finished = Finished {
                    fence,
                    start_by,
                    started_at,
                    result,
                    acked: Some(status),
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
        self.tasks.retain(|_, task| match task {
            Task::Finished(finished) if !finished.pending() && past(finished.start_by) => {
                floor = floor.max(finished.start_by.plus_ms(1));
                false
            }
            Task::Open(_) | Task::Finished(_) => true,
        });
        self.floor.seqs.retain(|_, last| {
            let keep = !past(last.until);
            if !keep {
                floor = floor.max(last.until.plus_ms(1));
            }
            keep
        });
        self.floor.time = floor;
    }

    /// Lets go of results that the control plane has. Their tasks are still recognised.
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
                Task::Finished(finished) => {
                    let Finished {
                        fence,
                        start_by,
                        started_at,
                        ..
                    } = *finished;
                    entries.extend(finished.result.clone().map(|result| {
                        Entry::Done(Done {
                            task_id,
                            fence,
                            start_by,
                            started_at,
                            result,
                        })
                    }));
                    entries.extend(finished.acked.map(|status| {
                        Entry::Acked(Acked {
                            task_id,
                            status,
                            start_by,
                        })
                    }));
                }
            }
        }
        // Last, because claiming raises the floor and sets numbers; here they are as they were.
        entries.push(Entry::Floor(self.floor.clone()));
        entries
    }
}
