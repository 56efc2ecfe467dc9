//! What an author writes: a `const` table of steps and the context they share. A step is a name and two function
//! pointers, never a closure, so that a table can be named, listed, compared and proven.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// One line of a table. `run` makes sure the effect is there, completely; `undo` makes sure it is absent, from any
/// half-way point. Both may be called again at any time.
pub struct Step<C> {
    /// The word used in docs, logs, timings and errors.
    pub name: &'static str,
    pub run: fn(&mut C) -> Result<(), Fail>,
    pub undo: fn(&mut C) -> Result<(), Fail>,
}

/// The undo of a step that leaves nothing behind.
pub fn nothing<C>(_: &mut C) -> Result<(), Fail> {
    Ok(())
}

/// What happens after a step has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFail {
    /// Go back: undo the failed step and all before it.
    Undo,
    /// Stop where it is. For tables that take something away, where going back would mean bringing it back.
    Halt,
}

/// The steps in order, and what a failure means to them.
pub struct Table<C: 'static> {
    pub steps: &'static [Step<C>],
    pub on_fail: OnFail,
}

impl<C> Table<C> {
    pub const fn with_way_back(steps: &'static [Step<C>]) -> Self {
        let on_fail = OnFail::Undo;
        Self { steps, on_fail }
    }

    pub const fn forward_only(steps: &'static [Step<C>]) -> Self {
        let on_fail = OnFail::Halt;
        Self { steps, on_fail }
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.steps.iter().map(|step| step.name).collect()
    }
}

/// What the steps of one walk share. Its facts are what an undo or a later step needs to know after a restart; they
/// are journalled with every move. What can be read from the task itself is no fact.
pub trait Context: 'static {
    type Facts: Serialize + DeserializeOwned;
    fn facts(&self) -> Self::Facts;
    fn restore(&mut self, facts: Self::Facts);
}

/// Why a step could not be done. The code is stable and may be matched; the detail is for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct Fail {
    pub code: Cow<'static, str>,
    pub detail: String,
}

impl Fail {
    pub fn new(code: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        let (code, detail) = (code.into(), detail.into());
        Self { code, detail }
    }
}

/// The direction of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    Run,
    Undo,
}
