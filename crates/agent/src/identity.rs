//! Who this node is and how it proves it: the working key and chain, the CAs it trusts, the endpoints it calls, and
//! an enrolment under way. Kept in two slots, so that no write can lose it.

mod slots;

use std::fmt;

use model::digest::Sha256;
use model::id::{InstallationId, NodeId};
use model::node_api::Endpoints;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use wire::spiffe::Spiffe;
use wire::tls::PeerCertificate;

pub use slots::{SLOT_BYTES, SlotError, Slots};

/// Everything that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    pub identity: Option<Identity>,
    pub enrolling: Option<Enrolling>,
}

/// An enrolment that may have reached the control plane: repeated, it must show the same working key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enrolling {
    pub token_sha256: Sha256,
    pub working_key: String,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub installation: InstallationId,
    pub node_id: NodeId,
    pub epoch: u64,
    /// PEM, as all keys and chains here.
    pub working_key: String,
    pub working: Certificate,
    /// The executor has its key; the chain is here to know when it is due.
    pub device: Certificate,
    pub ca_bundle: String,
    pub endpoints: Endpoints,
    /// The token that made this identity, so that the same handoff is not followed twice.
    pub token_sha256: Sha256,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    pub chain: String,
    pub generation: u64,
    /// By our clock. Half a life is counted from here: certificates are backdated, and one that lives for less than
    /// that would be past its middle when it arrives.
    pub received_at: Timestamp,
}

impl Identity {
    pub fn name(&self) -> Spiffe {
        Spiffe::Node {
            installation: self.installation,
            node_id: self.node_id,
            epoch: self.epoch,
        }
    }
}

impl Certificate {
    pub fn leaf(&self) -> Option<PeerCertificate> {
        let chain = wire::pem::certificates(&self.chain).ok()?;
        PeerCertificate::parse(chain.first()?).ok()
    }
}

impl fmt::Debug for Enrolling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enrolling").finish_non_exhaustive()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("node_id", &self.node_id)
            .field("epoch", &self.epoch)
            .field("generation", &self.working.generation)
            .finish_non_exhaustive()
    }
}
