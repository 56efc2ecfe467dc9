//! The intent: what a person was authorised to ask for, signed when it was authorised and stored with the request.
//! A task that touches a tenant is signed only under an intent that covers it, so a row slipped into a queue or a
//! workflow table makes no task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::dsse::{self, Envelope};
use crate::id::{AllocationId, InstallationId, IntentId, NodeId, OpId, ProjectId, derive_op};
use crate::key::{PublicKey, SigningKey};
use crate::signal::Code;
use crate::task::slot::Slot;
use crate::task::{Task, vm_power, vm_provision};
use crate::time::Timestamp;
use crate::value::{Name, SshKey, Uid};

pub const INTENT_TYPE: &str = "application/vnd.gpuaas.intent.v1+json";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IntentKind {
    /// Covers making what the wish says and, without expiry, taking it away again.
    Create,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    pub aud: InstallationId,
    pub intent_id: IntentId,
    pub allocation_id: AllocationId,
    pub kind: IntentKind,
    pub generation: u32,
    pub project_id: ProjectId,
    pub actor_ref: String,
    pub wish_sha256: Sha256,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
}

/// What was wished for, in full. Only its digest is signed; the bytes lie beside the intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "wish", rename_all = "snake_case", deny_unknown_fields)]
pub enum Wish {
    /// An account on a whole machine.
    Machine {
        node_id: NodeId,
        username: Name,
        uid: Uid,
        ssh_public_keys: Vec<SshKey>,
        gpu_access: bool,
    },
    /// A VM on slots, to the last field: image, keys, slots.
    Slice {
        node_id: NodeId,
        params: Box<vm_provision::Params>,
    },
    /// Slots wiped once more, with whatever a VM of that name has left on them.
    Wipe {
        node_id: NodeId,
        vm_name: Name,
        slots: Vec<Slot>,
    },
    /// A VM switched on or off. Each time is a wish of its own.
    Power { node_id: NodeId, params: vm_power::Params },
}

impl Wish {
    pub fn node(&self) -> NodeId {
        match self {
            Wish::Machine { node_id, .. }
            | Wish::Slice { node_id, .. }
            | Wish::Wipe { node_id, .. }
            | Wish::Power { node_id, .. } => *node_id,
        }
    }

    /// Does the task do what was wished for, and may it only do so in time? Taking away needs no person to be there.
    fn covers(&self, task: &Task, in_time: bool) -> bool {
        match (self, task) {
            (
                Wish::Machine {
                    username,
                    uid,
                    ssh_public_keys,
                    gpu_access,
                    ..
                },
                Task::ProvisionUser(params),
            ) => {
                in_time
                    && params.username == *username
                    && params.uid == *uid
                    && params.ssh_public_keys == *ssh_public_keys
                    && params.gpu_access == *gpu_access
            }
            (Wish::Machine { username, uid, .. }, Task::DeprovisionUser(params)) => {
                params.username == *username && params.uid == *uid
            }
            (Wish::Slice { params: wished, .. }, Task::VmProvision(params)) => in_time && params == &**wished,
            (Wish::Slice { params: wished, .. }, Task::VmRelease(params)) => {
                params.vm_name == wished.vm_name && params.slots == wished.slots
            }
            (Wish::Wipe { vm_name, slots, .. }, Task::VmRelease(params)) => {
                params.vm_name == *vm_name && params.slots == *slots
            }
            (Wish::Power { params: wished, .. }, Task::VmPower(params)) => in_time && params == wished,
            (Wish::Machine { .. } | Wish::Slice { .. } | Wish::Wipe { .. } | Wish::Power { .. }, _) => false,
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("our own documents have string keys and no failing serialisers")
    }
}

impl Intent {
    pub fn sign(&self, key: &SigningKey) -> Envelope {
        dsse::sign_json(INTENT_TYPE, self, &[key])
    }

    pub fn open(envelope: &Envelope, key: &PublicKey) -> Result<Self, Code> {
        let payload = envelope
            .open(INTENT_TYPE, |keyid| {
                if *keyid == key.keyid() {
                    Ok(*key)
                } else {
                    Err(Code::IntentInvalid)
                }
            })
            .map_err(|_| Code::IntentInvalid)?;
        dsse::parse_payload(&payload).map_err(|_| Code::IntentInvalid)
    }

    /// The wish in full, if these are the bytes that were signed for.
    pub fn wish(&self, wish_bytes: &[u8]) -> Result<Wish, Code> {
        if Sha256::of(wish_bytes) != self.wish_sha256 {
            return Err(Code::IntentInvalid);
        }
        serde_json::from_slice(wish_bytes).map_err(|_| Code::IntentInvalid)
    }

    /// The operation that this intent allows for a task, if it covers it: same allocation, same node, what was wished
    /// for, and in time.
    pub fn covers(&self, wish_bytes: &[u8], task: &Task, node: NodeId, now: Timestamp) -> Result<OpId, Code> {
        let wish = self.wish(wish_bytes)?;
        let covered = wish.covers(task, now <= self.expires_at) && task.allocation() == Some(self.allocation_id);
        if covered && wish.node() == node {
            Ok(derive_op(
                self.allocation_id,
                task.task_type().as_str(),
                self.generation,
            ))
        } else {
            Err(Code::IntentMissing)
        }
    }
}
