//! The result of a task as the executor signs it: which bytes it answers, how it ended, what it proved.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::digest::Sha256;
use crate::dsse::{self, Envelope};
use crate::id::{InstallationId, NodeId, OpId, TaskId};
use crate::key::{PublicKey, SigningKey};
use crate::proof::{ResetProof, WipeProof};
use crate::signal::Code;
use crate::time::Timestamp;

pub const RESULT_TYPE: &str = "application/vnd.gpuaas.node-result.v1+json";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Succeeded,
    Failed,
    /// Never started: the node would not take it.
    Refused,
    Cancelled,
    /// Taken, but its time to start ran out.
    Expired,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultPayload {
    pub aud: InstallationId,
    pub task_id: TaskId,
    /// Null where the envelope could not be read, or nobody known has signed it.
    pub op_id: Option<OpId>,
    pub node_id: NodeId,
    pub node_epoch: u64,
    /// The digest of the payload bytes that were received.
    pub payload_sha256: Sha256,
    pub outcome: Outcome,
    /// None where a newer executor says a code that this build does not know: its result lands all the same, and the
    /// signed bytes keep the word.
    #[serde(deserialize_with = "code_if_known")]
    pub code: Option<Code>,
    /// One sentence for a person; never a secret, never a body.
    pub detail: Option<String>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Timestamp,
    pub journal_seq: u64,
    /// `<step>_ms`.
    pub timings: BTreeMap<String, u64>,
    /// Steps whose undo ran.
    pub undone: Vec<String>,
    /// What a task that can dirty devices shows of them, however it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proofs: Option<Proofs>,
    pub output: Option<Box<RawValue>>,
}

/// Why devices may, or may not, go to the next tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Proofs {
    /// The journal shows that no disk was begun to be written.
    pub disk_untouched: bool,
    pub wipe: Vec<WipeProof>,
    pub reset: Vec<ResetProof>,
}

fn code_if_known<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Code>, D::Error> {
    let word = Option::<String>::deserialize(d)?;
    Ok(word.and_then(|word| word.parse().ok()))
}

impl ResultPayload {
    /// A refusal of bytes whose signer the executor could not tell: it names no operation, and is in no journal.
    pub fn is_hearsay(&self) -> bool {
        self.outcome == Outcome::Refused && self.op_id.is_none()
    }

    pub fn sign(&self, key: &SigningKey) -> Envelope {
        dsse::sign_json(RESULT_TYPE, self, &[key])
    }

    /// The result, if this node's executor signed it.
    pub fn open(envelope: &Envelope, key: &PublicKey) -> Result<Self, Code> {
        if envelope.payload.len() > dsse::MAX_BYTES {
            return Err(Code::ResultMalformed);
        }
        let payload = envelope
            .open(RESULT_TYPE, |keyid| {
                if *keyid == key.keyid() {
                    Ok(*key)
                } else {
                    Err(Code::ResultSignatureInvalid)
                }
            })
            .map_err(|_| Code::ResultSignatureInvalid)?;
        if crate::json::says_nul(&payload) {
            return Err(Code::ResultMalformed);
        }
        dsse::parse_payload(&payload).map_err(|_| Code::ResultMalformed)
    }
}
