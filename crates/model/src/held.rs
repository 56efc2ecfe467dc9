//! What a node holds, as its executor signs it: VMs and accounts of tenants, each with the operation that made it and
//! since when. The number only rises, so that of two lists the newer is known whatever the clocks say; an older one
//! never counts again. It says what is there, and nothing of what should be.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dsse::{self, Envelope};
use crate::id::{AllocationId, InstallationId, NodeId, OpId, SlotId};
use crate::key::{PublicKey, SigningKey};
use crate::signal::Code;
use crate::time::Timestamp;
use crate::value::{Name, Uid};

pub const HELD_TYPE: &str = "application/vnd.gpuaas.node-held.v1+json";

/// Of each kind. A host has fewer; what does not fit is said to be missing.
pub const MOST: usize = 128;

/// How far ahead of ours a node's clock may be.
const AHEAD_S: i64 = 120;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldPayload {
    pub aud: InstallationId,
    pub node_id: NodeId,
    pub node_epoch: u64,
    /// Rises with every list of this node, across restarts.
    pub number: u64,
    pub at: Timestamp,
    pub boot_id: String,
    pub holds: Holdings,
}

/// Everything of tenants that is on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Holdings {
    pub slices: Vec<HeldSlice>,
    pub users: Vec<HeldUser>,
    /// More is held than the list has room for.
    pub truncated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeldSlice {
    pub allocation_id: AllocationId,
    /// The operation that took the slots; with `since`, what makes this instance the same one.
    pub op_id: Option<OpId>,
    pub slots: Vec<SlotId>,
    pub vm_name: Option<Name>,
    pub power: HeldPower,
    /// When the VM was first made.
    pub since: Option<Timestamp>,
    /// Why what should run could not be started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// What there is of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeldPower {
    Running,
    Off,
    /// The slots are leased, and there is no VM: it is being made or taken away, or it is lost.
    Absent,
    /// What runs VMs does not answer.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeldUser {
    pub allocation_id: AllocationId,
    pub username: Name,
    pub uid: Uid,
    pub since: Option<Timestamp>,
    /// It is written down, and the host has no such account: somebody took it away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

impl Holdings {
    /// Cut to what a list has room for.
    pub fn bounded(mut self) -> Self {
        self.truncated |= self.slices.len() > MOST || self.users.len() > MOST;
        self.slices.truncate(MOST);
        self.users.truncate(MOST);
        self
    }
}

impl HeldPayload {
    pub fn sign(&self, key: &SigningKey) -> Envelope {
        dsse::sign_json(HELD_TYPE, self, &[key])
    }

    /// The list, if this node's executor signed it.
    pub fn open(envelope: &Envelope, key: &PublicKey) -> Result<Self, Code> {
        if envelope.payload.len() > dsse::MAX_BYTES {
            return Err(Code::HeldMalformed);
        }
        let find = |keyid: &_| {
            if *keyid == key.keyid() {
                Ok(*key)
            } else {
                Err(Code::HeldSignatureInvalid)
            }
        };
        let payload = envelope.open(HELD_TYPE, find).map_err(|_| Code::HeldSignatureInvalid)?;
        if crate::json::says_nul(&payload) {
            return Err(Code::HeldMalformed);
        }
        let list: Self = dsse::parse_payload(&payload).map_err(|_| Code::HeldMalformed)?;
        let fits = list.holds.slices.len() <= MOST
            && list.holds.users.len() <= MOST
            && list.boot_id.len() <= 64
            && list
                .holds
                .slices
                .iter()
                .all(|slice| slice.trouble.as_ref().is_none_or(|word| word.len() <= 64))
            && i64::try_from(list.number).is_ok();
        if fits { Ok(list) } else { Err(Code::HeldMalformed) }
    }

    /// Is it about this node as it is enrolled now, and not of a time to come?
    pub fn check(&self, aud: InstallationId, node: NodeId, epoch: u64, now: Timestamp) -> Result<(), Code> {
        if self.aud != aud || self.node_id != node {
            return Err(Code::HeldForeign);
        }
        if self.node_epoch != epoch {
            return Err(Code::HeldStale);
        }
        if self.at > now.plus_s(AHEAD_S) {
            return Err(Code::ClockSkew);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::RESULT_TYPE;

    fn list() -> HeldPayload {
        HeldPayload {
            aud: uuid::Uuid::from_u128(1).into(),
            node_id: uuid::Uuid::from_u128(2).into(),
            node_epoch: 3,
            number: 4,
            at: Timestamp::from_millis(5_000),
            boot_id: "boot".to_owned(),
            holds: Holdings::default(),
        }
    }

    #[test]
    fn only_the_nodes_own_key_and_the_lists_own_type_count() {
        let (key, other) = (SigningKey::generate(), SigningKey::generate());
        let signed = list().sign(&key);
        assert_eq!(HeldPayload::open(&signed, &key.public()), Ok(list()));
        let forged = list().sign(&other);
        assert_eq!(
            HeldPayload::open(&forged, &key.public()),
            Err(Code::HeldSignatureInvalid)
        );
        // A result's signature says nothing about what is held.
        let other_type = dsse::sign_json(RESULT_TYPE, &list(), &[&key]);
        assert_eq!(
            HeldPayload::open(&other_type, &key.public()),
            Err(Code::HeldSignatureInvalid)
        );
    }

    #[test]
    fn a_list_for_somebody_else_or_of_tomorrow_is_refused() {
        let (list, now) = (list(), Timestamp::from_millis(5_000));
        let check =
            |list: &HeldPayload| list.check(uuid::Uuid::from_u128(1).into(), uuid::Uuid::from_u128(2).into(), 3, now);
        assert_eq!(check(&list), Ok(()));
        let node_id = uuid::Uuid::from_u128(9).into();
        assert_eq!(
            check(&HeldPayload {
                node_id,
                ..list.clone()
            }),
            Err(Code::HeldForeign)
        );
        let node_epoch = 2;
        assert_eq!(
            check(&HeldPayload {
                node_epoch,
                ..list.clone()
            }),
            Err(Code::HeldStale)
        );
        let at = now.plus_s(AHEAD_S + 1);
        assert_eq!(check(&HeldPayload { at, ..list }), Err(Code::ClockSkew));
    }

    #[test]
    fn what_does_not_fit_is_said_to_be_missing() {
        let user = HeldUser {
            allocation_id: uuid::Uuid::from_u128(1).into(),
            username: "ada".parse().expect("a plain word"),
            uid: 20_001.try_into().expect("a tenant's uid"),
            since: None,
            gone: false,
        };
        let holds = Holdings {
            users: vec![user; MOST + 1],
            ..Holdings::default()
        };
        let bounded = holds.bounded();
        assert!(bounded.truncated && bounded.users.len() == MOST);
    }
}
