//! A ground in memory with a fuse at every call: one allocation at a time, a node that does what it is asked a look later,
//! and a database that refuses what ours refuses.

use std::sync::{Arc, Mutex, PoisonError};

use model::id::TaskId;
use model::signal::Code;
use model::state::{AllocationState, TaskState};
use steps::Blow;

use super::ground::{Ground, Holds, Seen, TaskSeen, Work};
use super::{Fail, Why};

#[derive(Clone, Debug)]
struct Job {
    id: TaskId,
    state: TaskState,
    stop: bool,
}

impl Job {
    fn seen(&self) -> TaskSeen {
        TaskSeen {
            id: self.id,
            state: self.state,
            code: None,
            detail: None,
        }
    }

    fn open(&self) -> bool {
        !self.state.is_end()
    }
}

pub(super) struct Facts {
    number: u32,
    pub(super) state: AllocationState,
    provision: Option<Job>,
    release: Option<Job>,
    holds: Holds,
    vm: bool,
    pub(super) calls: usize,
    pub(super) fuse: Option<(usize, Blow)>,
    pub(super) blown: bool,
    /// Before which call somebody takes it back, and whether somebody has.
    pub(super) taken_back_before: Option<usize>,
    pub(super) cancelled: bool,
    /// Before which call somebody gives back what is active by then.
    pub(super) given_back_before: Option<usize>,
}

/// What counts: is something of a tenant on the host, is somebody charged, is anything under way?
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Picture {
    vm: bool,
    given: bool,
    charged: bool,
    open_tasks: usize,
    under_way: bool,
}

impl Facts {
    pub(super) fn asked_for() -> Self {
        Self {
            number: 1,
            state: AllocationState::Requested,
            provision: None,
            release: None,
            holds: Holds::Promised,
            vm: false,
            calls: 0,
            fuse: None,
            blown: false,
            taken_back_before: None,
            cancelled: false,
            given_back_before: None,
        }
    }

    pub(super) fn to_be_released() -> Self {
        let (state, holds) = (AllocationState::Releasing, Holds::Given);
        Self {
            state,
            holds,
            vm: true,
            ..Self::asked_for()
        }
    }

    pub(super) fn picture(&self) -> Picture {
        Picture {
            vm: self.vm,
            given: self.holds == Holds::Given,
            charged: self.state == AllocationState::Active,
            open_tasks: [&self.provision, &self.release]
                .into_iter()
                .flatten()
                .filter(|job| job.open())
                .count(),
            under_way: !self.state.is_end() && self.state != AllocationState::Requested,
        }
    }

    /// The node goes on by one stroke.
    fn turn(&mut self) {
        if let Some(job) = self.provision.as_mut().filter(|job| job.open()) {
            (job.state, self.holds, self.vm) = match (job.state, job.stop) {
                (TaskState::Queued, true) => (TaskState::Cancelled, self.holds, self.vm),
                (TaskState::Queued, false) => (TaskState::Started, Holds::Given, true),
                // Taken back by the node itself, with proof.
                (_, true) => (TaskState::Failed, Holds::Nothing, false),
                (_, false) => (TaskState::Succeeded, Holds::Given, true),
            };
        }
        if let Some(job) = self.release.as_mut().filter(|job| job.open()) {
            (job.state, self.holds, self.vm) = match job.state {
                TaskState::Queued => (TaskState::Started, self.holds, self.vm),
                _ => (TaskState::Succeeded, Holds::Nothing, false),
            };
        }
    }
}

#[derive(Clone)]
pub(super) struct Pretend(pub(super) Arc<Mutex<Facts>>);

impl Pretend {
    /// The allocation that is wished for now: a new one, if the last has ended.
    pub(super) fn wished(&self) -> u32 {
        let mut facts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if facts.state.is_end() {
            let (number, calls, blown) = (facts.number + 1, facts.calls, facts.blown);
            *facts = Facts {
                number,
                calls,
                blown,
                ..Facts::asked_for()
            };
        }
        facts.number
    }

    fn call<T>(&self, effect: impl FnOnce(&mut Facts) -> Result<T, Fail>) -> Result<T, Fail> {
        let mut facts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if facts.taken_back_before == Some(facts.calls)
            && [AllocationState::Requested, AllocationState::Provisioning].contains(&facts.state)
        {
            facts.state = AllocationState::Unwinding;
            facts.cancelled = true;
        }
        if facts.given_back_before == Some(facts.calls) && facts.state == AllocationState::Active {
            facts.state = AllocationState::Releasing;
        }
        facts.calls += 1;
        let blow = match facts.fuse.take() {
            Some((0, blow)) => {
                facts.blown = true;
                Some(blow)
            }
            Some((more, blow)) => {
                facts.fuse = Some((more - 1, blow));
                None
            }
            None => None,
        };
        let planted = || Fail::fatal(Code::Internal, "planted");
        if blow == Some(Blow::Before) {
            return Err(planted());
        }
        let done = effect(&mut facts)?;
        if blow.is_some() { Err(planted()) } else { Ok(done) }
    }
}

fn queued(job: &mut Option<Job>) {
    if job
        .as_ref()
        .is_none_or(|job| !job.open() && job.state != TaskState::Succeeded)
    {
        *job = Some(Job {
            id: TaskId::new(),
            state: TaskState::Queued,
            stop: false,
        });
    }
}

impl Ground for Pretend {
    async fn look(&self) -> Result<Seen, Fail> {
        self.call(|facts| {
            facts.turn();
            Ok(Seen {
                state: facts.state,
                cancelled: facts.cancelled,
                provision: facts.provision.as_ref().map(Job::seen),
                release: facts.release.as_ref().map(Job::seen),
                holds: facts.holds,
            })
        })
    }

    async fn enter(&self, to: AllocationState, _: &str, _: &Why) -> Result<(), Fail> {
        self.call(|facts| {
            if !facts.state.leads_to().contains(&to) {
                return Ok(());
            }
            if to.is_end() && facts.holds != Holds::Nothing {
                return Err(Fail::fatal(Code::StateConflict, "it still holds something"));
            }
            facts.state = to;
            Ok(())
        })
    }

    async fn ask(&self, work: Work) -> Result<(), Fail> {
        self.call(|facts| {
            match work {
                Work::Provision if facts.state == AllocationState::Provisioning => queued(&mut facts.provision),
                Work::Provision => {}
                Work::Release => queued(&mut facts.release),
            }
            Ok(())
        })
    }

    async fn stop(&self) -> Result<(), Fail> {
        self.call(|facts| {
            if let Some(job) = facts.provision.as_mut() {
                job.stop = true;
            }
            Ok(())
        })
    }

    async fn give_back(&self) -> Result<(), Fail> {
        self.call(|facts| {
            let queued = facts.provision.as_ref().is_some_and(Job::open);
            if facts.holds == Holds::Promised && !queued {
                facts.holds = Holds::Nothing;
            }
            Ok(())
        })
    }
}
