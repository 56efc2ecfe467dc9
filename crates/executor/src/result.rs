//! What this node says about a task, signed with its result key: how it ended, or why it was not taken.

use std::collections::{BTreeMap, VecDeque};

use model::digest::Sha256;
use model::dsse::Envelope;
use model::id::{OpId, TaskId};
use model::key::SigningKey;
use model::outcome::{Outcome, ResultPayload};
use model::signal::Code;
use model::socket::NodeIdentity;
use model::time::Timestamp;
use serde_json::value::RawValue;
use steps::{End, Report};

use crate::journal::Open;
use crate::verify::Refused;

/// Longer texts from the host are cut: a result is for reading, not for logs.
const MAX_DETAIL: usize = 500;

/// How a task that was taken ended.
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    pub(crate) code: Option<Code>,
    pub(crate) detail: Option<String>,
    pub(crate) timings: BTreeMap<String, u64>,
    pub(crate) undone: Vec<String>,
    pub(crate) output: Option<Box<RawValue>>,
}

impl Ending {
    /// It never began.
    pub(crate) fn without_start(outcome: Outcome, code: Code) -> Self {
        let (code, detail) = (Some(code), Some(code.meaning().to_owned()));
        let (timings, undone, output) = (BTreeMap::new(), Vec::new(), None);
        Self {
            outcome,
            code,
            detail,
            timings,
            undone,
            output,
        }
    }

    pub(crate) fn of_walk(report: &Report, output: Option<Box<RawValue>>) -> Self {
        let timings = report.timings_ms().into_iter();
        let timings = timings.map(|(step, took_ms)| (format!("{step}_ms"), took_ms)).collect();
        let undone = report.undone().into_iter().map(str::to_owned).collect();
        let (outcome, code, detail) = match &report.end {
            End::Done => (Outcome::Succeeded, None, None),
            End::Undone { at, error } | End::Halted { at, error } => {
                let code = error.code.parse().unwrap_or(Code::HostCommandFailed);
                let cancelled = code == Code::TaskCancelled;
                let outcome = if cancelled { Outcome::Cancelled } else { Outcome::Failed };
                (outcome, Some(code), Some(format!("{at}: {}", error.detail)))
            }
            End::Stuck { at, undo, error } => {
                let undo = undo.as_deref().unwrap_or("nothing");
                let detail = format!("failed at {at}, stuck undoing {undo}: {error}");
                (Outcome::Failed, Some(Code::Stuck), Some(detail))
            }
        };
        let detail = detail.map(|detail| plain(&detail));
        Self {
            outcome,
            code,
            detail,
            timings,
            undone,
            output,
        }
    }

    /// `journal_seq` is how far the journal had come when the result was made.
    pub(crate) fn sign(
        self,
        open: &Open,
        ended_at: Timestamp,
        journal_seq: u64,
        key: &SigningKey,
    ) -> Result<Envelope, Code> {
        let payload = &open.payload;
        let result = ResultPayload {
            aud: payload.aud,
            task_id: payload.task_id,
            op_id: Some(payload.op_id),
            node_id: payload.node_id,
            node_epoch: payload.node_epoch,
            payload_sha256: Sha256::of(&open.claimed.envelope.payload_unverified()?),
            outcome: self.outcome,
            code: self.code,
            detail: self.detail,
            started_at: open.started_at,
            ended_at,
            journal_seq,
            timings: self.timings,
            undone: self.undone,
            output: self.output,
        };
        Ok(result.sign(key))
    }
}

/// Control characters would let a host's message write lines of its own into somebody's terminal.
fn plain(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(MAX_DETAIL).collect()
}

/// Refusals that were signed, so that the same offer gets the same bytes again. In memory and bounded: after a restart
/// the same offer is judged again.
#[derive(Default)]
pub(crate) struct Refusals(VecDeque<Kept>);

const MAX_REFUSALS: usize = 256;

#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) task_id: TaskId,
    pub(crate) fence: u64,
    payload_sha256: Sha256,
    code: Code,
    pub(crate) result: Envelope,
}

impl Refusals {
    pub(crate) fn sign(
        &mut self,
        (task_id, fence): (TaskId, u64),
        refused: &Refused,
        identity: &NodeIdentity,
        (ended_at, journal_seq): (Timestamp, u64),
        key: &SigningKey,
    ) -> Envelope {
        let Refused {
            refusal,
            op_id,
            payload_sha256,
        } = refused;
        let same = self.0.iter().find(|kept| {
            (kept.task_id, kept.fence) == (task_id, fence)
                && (kept.payload_sha256, kept.code) == (*payload_sha256, refusal.code)
        });
        if let Some(kept) = same {
            return kept.result.clone();
        }
        let op_id: Option<OpId> = *op_id;
        let result = ResultPayload {
            aud: identity.installation,
            task_id,
            op_id,
            node_id: identity.node_id,
            node_epoch: identity.epoch,
            payload_sha256: *payload_sha256,
            outcome: Outcome::Refused,
            code: Some(refusal.code),
            detail: Some(plain(&refusal.detail)),
            started_at: None,
            ended_at,
            journal_seq,
            timings: BTreeMap::new(),
            undone: Vec::new(),
            output: None,
        };
        let result = result.sign(key);
        if self.0.len() == MAX_REFUSALS {
            self.0.pop_front();
        }
        let (payload_sha256, code) = (*payload_sha256, refusal.code);
        self.0.push_back(Kept {
            task_id,
            fence,
            payload_sha256,
            code,
            result: result.clone(),
        });
        result
    }

    pub(crate) fn acked(&mut self, task_id: TaskId) {
        self.0.retain(|kept| kept.task_id != task_id);
    }

    pub(crate) fn pending(&self) -> impl Iterator<Item = &Kept> {
        self.0.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
