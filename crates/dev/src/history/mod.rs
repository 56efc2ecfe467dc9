//! What was asked, what was told and what the world saw of it, in one order; and rules that such a history must keep.
//! A history knows nothing of nodes or accounts: whoever watches names the keys. The world's own log decides what
//! happened, never the word of whoever did it.

mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use rules::{
    all_ended, at_most_one_effect, deaths_at_work, none_failed, none_falsely_complete, none_unasked,
    one_holder_at_a_time, steps_once,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The operation, or for holders the thing that is held.
    pub key: String,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Somebody asked for it.
    Invoke,
    /// Nobody knows: the request or its answer was lost. It was, or will be, asked again.
    Info,
    /// Somebody was told that it is done.
    Ok,
    /// Somebody was told that it will not be.
    Fail(String),
    /// The world changed because of it.
    Effect,
    /// The world was touched on its way there: the how-manieth move, in which life of whoever did it.
    Step {
        order: u32,
        life: u64,
    },
    /// This holder has the thing now.
    Takes(String),
    Gives(String),
}

#[derive(Clone, Debug, Default)]
pub struct History {
    events: Vec<Event>,
}

/// A rule that was broken, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub kind: Kind,
    pub key: String,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Lost,
    Doubled,
    FalselyComplete,
    Failed,
    Unasked,
    TwoHolders,
    LeftBehind,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Lost => "lost",
            Kind::Doubled => "doubled",
            Kind::FalselyComplete => "falsely complete",
            Kind::Failed => "failed",
            Kind::Unasked => "unasked",
            Kind::TwoHolders => "two holders",
            Kind::LeftBehind => "left behind",
        }
    }
}

impl History {
    pub fn put(&mut self, key: impl Into<String>, what: What) {
        self.events.push(Event { key: key.into(), what });
    }

    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The events of each key, in order.
    fn by_key(&self) -> BTreeMap<&str, Vec<&What>> {
        let mut keys: BTreeMap<&str, Vec<&What>> = BTreeMap::new();
        for Event { key, what } in &self.events {
            keys.entry(key).or_default().push(what);
        }
        keys
    }
}
