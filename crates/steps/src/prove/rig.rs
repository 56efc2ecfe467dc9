//! One trial: a fresh world, the table, and the faults of a plan between them. The driver is the real one; only the
//! journal (which can die at a write) and the call of a step (which can fail) are ours.

use std::cell::Cell as Slot;

use super::world::{Blow, World};
use crate::drive::{Error, Watch, act, drive};
use crate::journal::{Journal, Next, Record};
use crate::step::{Fail, Table, Way};
use crate::walk::{End, Walk};

/// The faults of one trial.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Plan {
    /// This step fails, each time it is tried.
    pub(super) fail: Option<(usize, Blow)>,
    pub(super) interrupt: Option<usize>,
    pub(super) run_twice: Option<usize>,
    pub(super) undo_twice: bool,
    /// The process dies at this journal write.
    pub(super) crash: Option<(usize, Blow)>,
    pub(super) fuse: Option<Fuse>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Fuse {
    pub(super) call: usize,
    pub(super) blow: Blow,
    /// Counted from the first undo, not from the start.
    pub(super) back: bool,
    /// The process dies with the call.
    pub(super) dies: bool,
}

pub(super) struct Trial {
    pub(super) end: End,
    /// All planted faults were met.
    pub(super) fired: bool,
    pub(super) writes: usize,
    /// Journal writes and calls of the world before the first undo.
    pub(super) writes_forward: usize,
    pub(super) calls_forward: usize,
    pub(super) calls: usize,
}

struct Died;

/// A journal in memory that loses or keeps the record it dies at.
struct Tape<'a> {
    records: Vec<Record>,
    writes: usize,
    crash: Option<(usize, Blow)>,
    /// Set when the process died in a step: nothing is written any more.
    dead: &'a Slot<bool>,
}

impl Journal for Tape<'_> {
    type Error = Died;
    fn append(&mut self, record: &Record) -> Result<(), Died> {
        if self.dead.get() {
            return Err(Died);
        }
        let dies = self.crash.take_if(|(write, _)| *write == self.writes);
        self.writes += 1;
        if !matches!(dies, Some((_, Blow::Before))) {
            self.records.push(record.clone());
        }
        if dies.is_some() { Err(Died) } else { Ok(()) }
    }
}

struct Quiet<'a> {
    interrupt: &'a dyn Fn() -> Option<Fail>,
}

impl Watch for Quiet<'_> {
    fn now_ms(&self) -> u64 {
        0
    }
    fn interrupted(&self) -> Option<Fail> {
        (self.interrupt)()
    }
}

pub(super) fn try_out<W: World>(table: &Table<W::Context>, world: &W, plan: Plan) -> Trial {
    let dead = Slot::new(false);
    let (asked, interrupted, failed, doubled) = (Slot::new(0), Slot::new(false), Slot::new(false), Slot::new(false));
    let forward = Slot::new(None::<usize>);
    let before = world.calls();
    let mut tape = Tape {
        records: Vec::new(),
        writes: 0,
        crash: plan.crash,
        dead: &dead,
    };
    let interrupt = || {
        let at = asked.replace(asked.get() + 1);
        let now = plan.interrupt == Some(at);
        interrupted.set(interrupted.get() || now);
        now.then(|| Fail::new("interrupted", "planted"))
    };
    if let Some(fuse) = plan.fuse.filter(|fuse| !fuse.back) {
        world.set_fuse(fuse.call, fuse.blow);
    }
    // Where an undo meets a failed call, being stuck is right, and somebody tries again, once. Elsewhere it is not.
    let operator = plan.fuse.is_some_and(|fuse| fuse.back && !fuse.dies);
    let (mut deaths, mut was_stuck, mut writes_forward) = (0, false, None);
    let end = loop {
        let mut faulty = |way: Way, at: usize, context: &mut W::Context| {
            if way == Way::Undo && forward.get().is_none() {
                forward.set(Some(world.calls() - before));
                if let Some(fuse) = plan.fuse.filter(|fuse| fuse.back) {
                    world.set_fuse(fuse.call, fuse.blow);
                }
            }
            let planted = plan
                .fail
                .filter(|(step, _)| way == Way::Run && *step == at)
                .map(|(_, blow)| blow);
            if planted == Some(Blow::Before) {
                failed.set(true);
                return Err(Fail::new("planted", "before the effect"));
            }
            let mut outcome = act(table, way, at, context);
            let twice = if way == Way::Run {
                plan.run_twice == Some(at)
            } else {
                plan.undo_twice
            };
            if twice && outcome.is_ok() {
                doubled.set(true);
                outcome = act(table, way, at, context);
            }
            if plan.fuse.is_some_and(|fuse| fuse.dies) && world.fuse_blown() && deaths == 0 {
                dead.set(true);
            }
            if planted == Some(Blow::After) && outcome.is_ok() {
                failed.set(true);
                return Err(Fail::new("planted", "after the effect"));
            }
            outcome
        };
        let mut context = world.context();
        let records = tape.records.clone();
        let mut walk = Walk::resume(table.names(), table.on_fail, &records);
        // A halt is an end, which a restart gives again; only an operator's word sets it going.
        was_stuck |= !matches!(walk.next(), Next::End(End::Halted { .. })) && walk.retry();
        let driven = drive(
            walk,
            &mut context,
            &mut tape,
            &records,
            &mut Quiet { interrupt: &interrupt },
            &mut faulty,
        );
        if forward.get().is_some() && writes_forward.is_none() {
            writes_forward = tape.records.iter().position(|record| record.cause.is_some());
        }
        match driven {
            Ok(report) if operator && !was_stuck && matches!(report.end, End::Stuck { undo: Some(_), .. }) => {
                continue;
            }
            Ok(report) => break report.end,
            Err(Error::Journal(Died)) if deaths == 0 => {
                deaths += 1;
                dead.set(false);
            }
            Err(Error::Journal(Died)) => unreachable!("a plan kills the process once"),
            Err(Error::Facts(error)) => {
                let error = Fail::new("facts_unwritable", error.to_string());
                break End::Stuck {
                    at: String::new(),
                    undo: None,
                    error,
                };
            }
        }
    };
    let dies = plan.crash.is_some() || plan.fuse.is_some_and(|fuse| fuse.dies);
    let met = [
        (plan.fail.is_some(), failed.get()),
        (plan.interrupt.is_some(), interrupted.get()),
        (plan.run_twice.is_some() || plan.undo_twice, doubled.get()),
        (plan.fuse.is_some(), world.fuse_blown()),
        (dies, deaths == 1),
    ];
    let fired = met.into_iter().all(|(planted, met)| planted == met);
    let calls = world.calls() - before;
    let (writes, calls_forward) = (tape.writes, forward.get().unwrap_or(calls));
    let writes_forward = writes_forward.unwrap_or(writes);
    Trial {
        end,
        fired,
        writes,
        writes_forward,
        calls_forward,
        calls,
    }
}
