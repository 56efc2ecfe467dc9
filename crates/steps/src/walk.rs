//! The decision, without I/O: given the journal and how the last move ended, which move is next. A driver asks
//! [`Walk::next`], makes it durable, says [`Walk::begun`], acts, says [`Walk::ended`], and so on until there is an end.

use serde::{Deserialize, Serialize};

use crate::journal::{Cause, Next, Record};
use crate::step::{Fail, OnFail, Way};

/// The code of a walk whose journal was written for another table.
pub const FLOW_CHANGED: &str = "flow_changed";

/// How a walk can end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Every step is done.
    Done,
    /// Step `at` failed or was interrupted; it and all before it are undone.
    Undone { at: String, error: Fail },
    /// Step `at` of a forward-only table failed or was interrupted; what was done stays.
    Halted { at: String, error: Fail },
    /// Nothing more can be done without a person: the undo of step `undo` failed after step `at` had, or (without
    /// `undo`) the journal does not fit the table.
    Stuck {
        at: String,
        undo: Option<String>,
        error: Fail,
    },
}

#[derive(Debug, Clone)]
pub struct Walk {
    names: Vec<&'static str>,
    on_fail: OnFail,
    next: Next,
    cause: Option<Cause>,
    durable: bool,
}

impl Walk {
    pub fn start(names: Vec<&'static str>, on_fail: OnFail) -> Self {
        let (cause, durable) = (None, false);
        let mut walk = Self {
            names,
            on_fail,
            next: Next::End(End::Done),
            cause,
            durable,
        };
        walk.go(Way::Run, 0);
        walk
    }

    /// Goes on where the records end. A journal of another table gives `Stuck` with [`FLOW_CHANGED`], as if it were
    /// already durable: nothing is written, so that the build which began the walk can still finish it.
    pub fn resume(names: Vec<&'static str>, on_fail: OnFail, records: &[Record]) -> Self {
        let Some(last) = records.last() else {
            return Self::start(names, on_fail);
        };
        let mut walk = Self {
            names,
            on_fail,
            next: last.next.clone(),
            cause: last.cause.clone(),
            durable: true,
        };
        let table = records.iter().find_map(|record| record.table.as_ref());
        if !table.is_some_and(|table| table.iter().eq(walk.names.iter())) {
            walk.flow_changed("the steps are not those of the journal");
        } else if let Next::Begin { at, step, .. } = &last.next
            && walk.names.get(*at) != Some(&step.as_str())
        {
            walk.flow_changed("the journal names a step that is elsewhere now");
        }
        walk
    }

    pub fn next(&self) -> &Next {
        &self.next
    }

    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    pub fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// Must `next` be written down before anything else happens?
    pub fn must_be_journalled(&self) -> bool {
        !self.durable
    }

    /// `next` is durable: from here on it counts as begun, and will be undone if the walk turns back.
    pub fn begun(&mut self) {
        self.durable = true;
    }

    /// The move that `next` names has ended.
    pub fn ended(&mut self, outcome: Result<(), Fail>) {
        let Next::Begin { way, at, step } = self.next.clone() else {
            return;
        };
        match (way, outcome) {
            (Way::Run, Ok(())) => self.go(Way::Run, at + 1),
            (Way::Run, Err(error)) => self.turn_back(Cause { at: step, error }, Some(at)),
            (Way::Undo, Ok(())) => self.undo_from(at.checked_sub(1)),
            (Way::Undo, Err(error)) => {
                let at = self
                    .cause
                    .as_ref()
                    .map_or_else(|| step.clone(), |cause| cause.at.clone());
                self.set(Next::End(End::Stuck {
                    at,
                    undo: Some(step),
                    error,
                }));
            }
        }
    }

    /// Turns back before the next step. Does nothing when the walk has ended or is going back already: an undo is
    /// never cut short.
    pub fn interrupt(&mut self, error: Fail) {
        let Next::Begin {
            way: Way::Run,
            at,
            step,
        } = self.next.clone()
        else {
            return;
        };
        let reached = if self.durable { Some(at) } else { at.checked_sub(1) };
        self.turn_back(Cause { at: step, error }, reached);
    }

    /// The operator's verb for a failed undo, or for a step of a forward-only table: try it again. False if that is not how
    /// the walk ended.
    pub fn retry(&mut self) -> bool {
        let (way, step) = match &self.next {
            Next::End(End::Stuck { undo: Some(undo), .. }) => (Way::Undo, undo),
            Next::End(End::Halted { at, .. }) => (Way::Run, at),
            Next::End(End::Stuck { undo: None, .. } | End::Done | End::Undone { .. }) | Next::Begin { .. } => {
                return false;
            }
        };
        let Some(at) = self.names.iter().position(|name| name == step) else {
            return false;
        };
        if way == Way::Run {
            self.cause = None;
        }
        self.go(way, at);
        true
    }

    pub(crate) fn flow_changed(&mut self, detail: &str) {
        let at = match &self.next {
            Next::Begin { step, .. } => step.clone(),
            // What has ended needs no table.
            Next::End(_) => return,
        };
        let error = Fail::new(FLOW_CHANGED, detail);
        self.next = Next::End(End::Stuck { at, undo: None, error });
    }

    fn turn_back(&mut self, cause: Cause, reached: Option<usize>) {
        self.cause = Some(cause.clone());
        match self.on_fail {
            OnFail::Undo => self.undo_from(reached),
            OnFail::Halt => self.set(Next::End(End::Halted {
                at: cause.at,
                error: cause.error,
            })),
        }
    }

    fn undo_from(&mut self, at: Option<usize>) {
        match (at, self.cause.clone()) {
            (Some(at), _) => self.go(Way::Undo, at),
            (None, Some(Cause { at, error })) => self.set(Next::End(End::Undone { at, error })),
            (None, None) => self.flow_changed("an undo without a cause"),
        }
    }

    fn go(&mut self, way: Way, at: usize) {
        self.set(match self.names.get(at) {
            Some(step) => Next::Begin {
                way,
                at,
                step: (*step).to_owned(),
            },
            None => Next::End(End::Done),
        });
    }

    fn set(&mut self, next: Next) {
        self.next = next;
        self.durable = false;
    }
}
