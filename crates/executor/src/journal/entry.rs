//! What the journal can say. Each kind is one derived struct that refuses unknown fields: a journal written by a build
//! that knew more is reported, not half understood.

use std::collections::BTreeMap;

use model::digest::Sha256;
use model::dsse::Envelope;
use model::id::TaskId;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use steps::{End, Next, Way};

#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// Taken: from here on the task survives anything.
    Claimed(Claimed),
    Started(Started),
    /// One move of its walk: a step, an undo, or being stuck.
    Step(Step),
    /// Over, or refused before it began, with the signed result. It stays until the control plane has it.
    Done(Done),
    Acked(Acked),
    /// What must not be forgotten when tasks are.
    Floor(Floor),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claimed {
    pub(crate) task_id: TaskId,
    pub(crate) fence: u64,
    pub(crate) claimed_at: Timestamp,
    /// What it changes, so that an older task cannot change it back. Once there was at most one.
    #[serde(alias = "subject", deserialize_with = "none_one_or_many")]
    pub(crate) subjects: Vec<String>,
    /// Host clock minus the control plane's, at the offer.
    pub(crate) clock_skew_ms: i64,
    pub(crate) envelope: Envelope,
}

pub(super) fn none_one_or_many<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Said {
        Many(Vec<String>),
        One(Option<String>),
    }
    Ok(match Said::deserialize(d)? {
        Said::Many(subjects) => subjects,
        Said::One(subject) => subject.into_iter().collect(),
    })
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Started {
    pub(crate) task_id: TaskId,
    pub(crate) at: Timestamp,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) task_id: TaskId,
    pub(crate) record: steps::Record,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Done {
    pub(crate) task_id: TaskId,
    pub(crate) fence: u64,
    /// The bytes that it answers.
    pub(crate) payload_sha256: Sha256,
    /// Was it never taken? Such an answer stands for these bytes alone, not for whatever bears the task's name.
    pub(crate) refused: bool,
    /// Until then, and a little longer, the task may be offered again and must be known.
    pub(crate) start_by: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) result: Envelope,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Acked {
    pub(crate) task_id: TaskId,
    pub(crate) payload_sha256: Sha256,
    pub(crate) refused: bool,
    /// What the control plane answered.
    pub(crate) status: u16,
    pub(crate) start_by: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Floor {
    /// Time does not pass backwards through it.
    pub(crate) time: Timestamp,
    /// The epoch that the numbers below count in.
    pub(crate) epoch: u64,
    pub(crate) seqs: BTreeMap<String, LastSeq>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LastSeq {
    pub(crate) seq: u64,
    /// No older task of this subject can start after it.
    pub(crate) until: Timestamp,
}

pub(super) const CLAIMED: u8 = 1;
pub(super) const STARTED: u8 = 2;
pub(super) const STEP: u8 = 3;
pub(super) const UNDO: u8 = 4;
pub(super) const STUCK: u8 = 5;
pub(super) const DONE: u8 = 6;
const ACKED: u8 = 7;
const FLOOR: u8 = 8;

impl Entry {
    pub(super) fn kind(&self) -> u8 {
        match self {
            Entry::Claimed(_) => CLAIMED,
            Entry::Started(_) => STARTED,
            Entry::Step(step) => match &step.record.next {
                Next::Begin { way: Way::Run, .. } | Next::End(End::Done | End::Halted { .. }) => STEP,
                Next::Begin { way: Way::Undo, .. } | Next::End(End::Undone { .. }) => UNDO,
                Next::End(End::Stuck { .. }) => STUCK,
            },
            Entry::Done(_) => DONE,
            Entry::Acked(_) => ACKED,
            Entry::Floor(_) => FLOOR,
        }
    }

    pub(super) fn body(&self) -> serde_json::Result<Vec<u8>> {
        match self {
            Entry::Claimed(body) => serde_json::to_vec(body),
            Entry::Started(body) => serde_json::to_vec(body),
            Entry::Step(body) => serde_json::to_vec(body),
            Entry::Done(body) => serde_json::to_vec(body),
            Entry::Acked(body) => serde_json::to_vec(body),
            Entry::Floor(body) => serde_json::to_vec(body),
        }
    }

    pub(super) fn parse(kind: u8, body: &[u8]) -> Result<Self, String> {
        let parsed = match kind {
            CLAIMED => serde_json::from_slice(body).map(Entry::Claimed),
            STARTED => serde_json::from_slice(body).map(Entry::Started),
            STEP | UNDO | STUCK => serde_json::from_slice(body).map(Entry::Step),
            DONE => serde_json::from_slice(body).map(Entry::Done),
            ACKED => serde_json::from_slice(body).map(Entry::Acked),
            FLOOR => serde_json::from_slice(body).map(Entry::Floor),
            _ => return Err(format!("a record of kind {kind}, which this build does not know")),
        };
        parsed.map_err(|error| unreadable(kind, &error))
    }
}

pub(super) fn unreadable(kind: u8, error: &serde_json::Error) -> String {
    format!("a record of kind {kind} does not parse: {error}")
}
