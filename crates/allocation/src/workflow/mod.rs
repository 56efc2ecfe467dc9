//! Workflows: what has to happen on hosts after a wish was accepted, as tables of steps. A step looks, does what is
//! missing and says when to look again; it is safe to run at any time, by any worker, any number of times. The journal
//! in the database is written before each move, so that whoever comes after a crash goes on where it ended.

pub mod drive;
pub mod ground;
pub mod journal;
mod look;
mod platform;
#[cfg(test)]
mod pretend;
#[cfg(test)]
mod proof;
pub mod provision;
pub mod release;

use std::future::Future;
use std::pin::Pin;

use model::id::TaskId;
use model::signal::Code;
use steps::OnFail;

pub use ground::Ground;
pub use platform::Platform;

/// Every workflow there is, by the name that its rows carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// From the wish to an allocation that is ready, or all the way back.
    Provision,
    /// From the acceptance of a release to slots that are free with proof, or quarantined.
    Release,
}

impl Flow {
    pub const ALL: [Flow; 2] = [Flow::Provision, Flow::Release];

    pub const fn name(self) -> &'static str {
        match self {
            Flow::Provision => "allocation.provision",
            Flow::Release => "allocation.release",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|flow| flow.name() == name)
    }

    pub const fn on_fail(self) -> OnFail {
        match self {
            Flow::Provision => OnFail::Undo,
            // Going back would mean bringing it back.
            Flow::Release => OnFail::Halt,
        }
    }

    pub fn steps<G: Ground>(self) -> Vec<Step<G>> {
        match self {
            Flow::Provision => provision::steps(),
            Flow::Release => release::steps(),
        }
    }
}

/// Why a step is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fail {
    /// Not yet: look again when this task has ended, and in any case after so long.
    Wait { task: Option<TaskId>, after_ms: i64 },
    /// Not at all.
    Fatal { code: Code, detail: String },
}

impl Fail {
    pub(crate) const fn until(task: TaskId) -> Self {
        // The end of a task is told; this is for the case that nobody heard it.
        Fail::Wait {
            task: Some(task),
            after_ms: 5_000,
        }
    }

    pub(crate) const fn after_ms(after_ms: i64) -> Self {
        Fail::Wait { task: None, after_ms }
    }

    pub(crate) fn fatal(code: Code, detail: impl Into<String>) -> Self {
        Fail::Fatal {
            code,
            detail: detail.into(),
        }
    }
}

pub type Doing<'a> = Pin<Box<dyn Future<Output = Result<(), Fail>> + Send + 'a>>;

/// Why the walk turned back, for the steps that are undone.
#[derive(Clone, Debug, Default)]
pub struct Why {
    pub code: Option<Code>,
    pub detail: String,
}

/// One line of a table: `run` makes sure that it is done, `undo` that it is absent, from any half-way point.
pub struct Step<G> {
    pub name: &'static str,
    pub run: for<'a> fn(&'a G, &'a Why) -> Doing<'a>,
    pub undo: for<'a> fn(&'a G, &'a Why) -> Doing<'a>,
}

/// The undo of a step that leaves nothing behind.
pub(crate) fn nothing<'a, G: Ground>(_: &'a G, _: &'a Why) -> Doing<'a> {
    Box::pin(std::future::ready(Ok(())))
}
