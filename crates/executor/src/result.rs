//! What this node says about a task, signed with its result key: how it ended, or why it was not taken.

use std::collections::BTreeMap;

use model::digest::Sha256;
use model::dsse::Envelope;
use model::id::TaskId;
use model::key::SigningKey;
use model::outcome::{Outcome, Proofs, ResultPayload};
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
    pub(crate) proofs: Option<Proofs>,
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
            proofs: None,
            output,
        }
    }

    pub(crate) fn of_walk(report: &Report, proofs: Option<Proofs>, output: Option<Box<RawValue>>) -> Self {
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
            proofs,
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
            proofs: self.proofs,
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

/// What this node says about a task that it does not take.
pub(crate) fn refusal(
    task_id: TaskId,
    refused: &Refused,
    identity: &NodeIdentity,
    (ended_at, journal_seq): (Timestamp, u64),
    key: &SigningKey,
) -> Envelope {
    let result = ResultPayload {
        aud: identity.installation,
        task_id,
        op_id: refused.signed.and_then(|signed| signed.op_id),
        node_id: identity.node_id,
        node_epoch: identity.epoch,
        payload_sha256: refused.payload_sha256,
        outcome: Outcome::Refused,
        code: Some(refused.refusal.code),
        detail: Some(plain(&refused.refusal.detail)),
        started_at: None,
        ended_at,
        journal_seq,
        timings: BTreeMap::new(),
        undone: Vec::new(),
        proofs: None,
        output: None,
    };
    result.sign(key)
}
