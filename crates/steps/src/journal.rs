//! What is written down. One record per move: it ends the move before and begins the next, so that a walk of n moves
//! costs n + 1 durable writes. The last record alone says how to go on; the earlier ones hold the timings.

use serde::{Deserialize, Serialize};

use crate::step::{Fail, Way};
use crate::walk::End;

/// Where records go. `append` returns only when the record will survive a power cut; after an error the caller must
/// read the journal again before it acts, because the record may or may not be there.
pub trait Journal {
    type Error;
    fn append(&mut self, record: &Record) -> Result<(), Self::Error>;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The names of all steps; in the first record of a walk only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    pub next: Next,
    /// Why the walk turned back; in every record after it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The context's facts between the two moves.
    pub facts: serde_json::Value,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    pub way: Way,
    pub step: String,
    pub ok: bool,
    pub took_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    Begin { way: Way, at: usize, step: String },
    End(End),
}

/// The step at which a walk turned back, and why. An interrupted walk names the step it would have begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    pub at: String,
    pub error: Fail,
}
