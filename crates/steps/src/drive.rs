//! The synchronous driver: journal, act, journal, act. It owns no clock, no file and no thread; all of them are
//! passed in. Interruption is asked for between steps only, never inside one and never on the way back.

use std::collections::BTreeMap;

use crate::journal::{Ended, Journal, Next, Record};
use crate::step::{Context, Fail, Table, Way};
use crate::walk::{End, Walk};

/// What a driver needs from whoever started the walk.
pub trait Watch {
    /// Milliseconds on a clock that does not go back.
    fn now_ms(&self) -> u64;

    /// Asked before each step: shall the walk turn back here, and why?
    fn interrupted(&self) -> Option<Fail> {
        None
    }

    /// Told before each move, when the journal already knows of it.
    fn begins(&mut self, _way: Way, _step: &'static str) {}
}

/// How a walk ended and which moves led there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub end: End,
    /// Every move that ended, oldest first, over all restarts.
    pub moves: Vec<Ended>,
}

impl Report {
    /// Does the journal not fit the table? Then nothing was done and nothing was written: the build that began the
    /// walk can go on with it, and this one must not call it ended.
    pub fn needs_another_build(&self) -> bool {
        matches!(&self.end, End::Stuck { undo: None, .. })
    }

    /// The steps that were undone, in that order.
    pub fn undone(&self) -> Vec<&str> {
        let undone = self.moves.iter().filter(|ended| ended.way == Way::Undo && ended.ok);
        undone.map(|ended| ended.step.as_str()).collect()
    }

    /// How long each step ran, by name; of a step that ran again, the last time.
    pub fn timings_ms(&self) -> BTreeMap<&str, u64> {
        let runs = self.moves.iter().filter(|ended| ended.way == Way::Run);
        runs.map(|ended| (ended.step.as_str(), ended.took_ms)).collect()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error<E> {
    /// Nothing was done after it. Read the journal again, then resume.
    #[error("the journal did not take a record")]
    Journal(#[source] E),
    #[error("the facts of a context cannot be written as JSON")]
    Facts(#[source] serde_json::Error),
}

/// Walks the table from its first step.
pub fn run<C: Context, J: Journal>(
    table: &Table<C>,
    context: &mut C,
    journal: &mut J,
    watch: &mut dyn Watch,
) -> Result<Report, Error<J::Error>> {
    resume(table, context, journal, &[], watch)
}

/// Goes on where the records end; the step it died in runs again. A walk that had ended gives its end again.
pub fn resume<C: Context, J: Journal>(
    table: &Table<C>,
    context: &mut C,
    journal: &mut J,
    records: &[Record],
    watch: &mut dyn Watch,
) -> Result<Report, Error<J::Error>> {
    let walk = Walk::resume(table.names(), table.on_fail, records);
    drive(walk, context, journal, records, watch, &mut |way, at, context| {
        act(table, way, at, context)
    })
}

/// Tries a failed undo again, or the step that a forward-only table has halted at. Any other walk is resumed.
pub fn retry<C: Context, J: Journal>(
    table: &Table<C>,
    context: &mut C,
    journal: &mut J,
    records: &[Record],
    watch: &mut dyn Watch,
) -> Result<Report, Error<J::Error>> {
    let mut walk = Walk::resume(table.names(), table.on_fail, records);
    walk.retry();
    drive(walk, context, journal, records, watch, &mut |way, at, context| {
        act(table, way, at, context)
    })
}

pub(crate) fn act<C>(table: &Table<C>, way: Way, at: usize, context: &mut C) -> Result<(), Fail> {
    match way {
        Way::Run => (table.steps[at].run)(context),
        Way::Undo => (table.steps[at].undo)(context),
    }
}

pub(crate) type Act<'a, C> = &'a mut dyn FnMut(Way, usize, &mut C) -> Result<(), Fail>;

/// `act` is a parameter so that a proof can put its faults between the walk and the steps.
pub(crate) fn drive<C: Context, J: Journal>(
    mut walk: Walk,
    context: &mut C,
    journal: &mut J,
    records: &[Record],
    watch: &mut dyn Watch,
    act: Act<'_, C>,
) -> Result<Report, Error<J::Error>> {
    let mut moves: Vec<Ended> = records.iter().filter_map(|record| record.ended.clone()).collect();
    let mut table = records
        .is_empty()
        .then(|| walk.names().iter().map(|name| (*name).to_owned()).collect());
    let mut ended = None;
    if let Some(last) = records.last() {
        match serde_json::from_value(last.facts.clone()) {
            Ok(facts) => context.restore(facts),
            Err(error) => walk.flow_changed(&format!("the facts do not parse: {error}")),
        }
    }
    loop {
        if matches!(walk.next(), Next::Begin { way: Way::Run, .. })
            && let Some(error) = watch.interrupted()
        {
            walk.interrupt(error);
        }
        if walk.must_be_journalled() {
            let facts = serde_json::to_value(context.facts()).map_err(Error::Facts)?;
            let (next, cause) = (walk.next().clone(), walk.cause().cloned());
            let record = Record {
                table: table.take(),
                ended: ended.take(),
                next,
                cause,
                facts,
            };
            journal.append(&record).map_err(Error::Journal)?;
            walk.begun();
        }
        let (way, at) = match walk.next() {
            Next::Begin { way, at, .. } => (*way, *at),
            Next::End(end) => {
                return Ok(Report {
                    end: end.clone(),
                    moves,
                });
            }
        };
        let name = walk.names()[at];
        watch.begins(way, name);
        let begun_ms = watch.now_ms();
        let outcome = act(way, at, context);
        let took_ms = watch.now_ms().saturating_sub(begun_ms);
        let end = Ended {
            way,
            step: name.to_owned(),
            ok: outcome.is_ok(),
            took_ms,
        };
        moves.push(end.clone());
        ended = Some(end);
        walk.ended(outcome);
    }
}
