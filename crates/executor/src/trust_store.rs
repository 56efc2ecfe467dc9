//! Who this node is and whom it believes, kept across restarts. Everything hangs on the hash that root pinned in
//! node.toml; documents only advance, and an identity is taken only after `enroll` was run on this very host.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use model::digest::Sha256;
use model::envelope::Refusal;
use model::signal::Code;
use model::socket::{Enrolled, NodeIdentity};
use model::time::Timestamp;
use model::trust::{Bundle, Trust};
use serde::{Deserialize, Serialize};

use crate::device::{Device, DeviceError};
use crate::durable;
use crate::keys::Keys;
use crate::pair::Pair;

/// Written by `enroll`, removed when an identity has been taken.
const OPEN_DOOR: &str = "enrolment_open";
/// How long it stays there unused.
const DOOR_S: i64 = 3600;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Door {
    token: Sha256,
    opened_at: Timestamp,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    /// What node.toml said when this node enrolled.
    pinned_root: Sha256,
    /// A root of the newest delegation; differs from the pinned one after the roots have been replaced.
    anchor: Sha256,
    bundle: Bundle,
    identity: NodeIdentity,
    /// PEM, leaf first.
    device_chain: String,
    token_audiences: Vec<String>,
}

/// The document that is kept.
const KEPT: &str = "identity";

pub(crate) struct TrustStore {
    dir: PathBuf,
    pair: Pair,
    believed: Option<Believed>,
}

struct Believed {
    stored: Stored,
    trust: Trust,
}

impl TrustStore {
    /// What is on disk counts only under the root that node.toml pins now.
    pub(crate) fn open(state_dir: &Path, pinned_root: Option<Sha256>) -> anyhow::Result<Self> {
        let dir = state_dir.join("trust");
        durable::ensure_private_dir(&dir).with_context(|| format!("make {}", dir.display()))?;
        let path = dir.join(KEPT);
        let (pair, bytes) = Pair::open(&dir, KEPT).with_context(|| format!("read {}", path.display()))?;
        let mut store = Self {
            dir,
            pair,
            believed: None,
        };
        let Some(bytes) = bytes else {
            return Ok(store);
        };
        let stored: Stored = serde_json::from_slice(&bytes).with_context(|| format!("{}", path.display()))?;
        if pinned_root != Some(stored.pinned_root) {
            tracing::error!(code = %Code::RootMismatch, "node.toml pins another root than this node enrolled under");
            return Ok(store);
        }
        let trust = Trust::establish(&stored.anchor, &stored.bundle)
            .map_err(|code| anyhow::anyhow!("{} does not verify: {code}", path.display()))?;
        store.believed = Some(Believed { stored, trust });
        Ok(store)
    }

    pub(crate) fn identity(&self) -> Option<NodeIdentity> {
        self.believed.as_ref().map(|believed| believed.stored.identity)
    }

    /// The root that node.toml pinned when what is believed was taken.
    pub(crate) fn pinned_root(&self) -> Option<Sha256> {
        self.believed.as_ref().map(|believed| believed.stored.pinned_root)
    }

    pub(crate) fn trust(&self) -> Option<&Trust> {
        self.believed.as_ref().map(|believed| &believed.trust)
    }

    pub(crate) fn token_audiences(&self) -> &[String] {
        self.believed
            .as_ref()
            .map_or(&[], |believed| &believed.stored.token_audiences)
    }

    /// The device certificate, read again from what is stored.
    pub(crate) fn device(&self, keys: &Keys) -> Result<Device, Refusal> {
        let Some(Believed { stored, .. }) = &self.believed else {
            return Err(Code::NotEnrolled.into());
        };
        Device::read(&stored.device_chain, keys, &stored.identity).map_err(refused)
    }

    /// Lets the next `enrolled` message in.
    pub(crate) fn open_door(state_dir: &Path, token: &Sha256, now: Timestamp) -> anyhow::Result<()> {
        let dir = state_dir.join("trust");
        durable::ensure_private_dir(&dir)?;
        let door = Door {
            token: *token,
            opened_at: now,
        };
        durable::write(&dir.join(OPEN_DOOR), &serde_json::to_vec(&door)?, 0o600)?;
        Ok(())
    }

    /// Nonsense, or a clock that has jumped, is a closed door: somebody at the host opens it again.
    fn door_is_open(&self, now: Timestamp) -> Result<bool, Refusal> {
        let bytes = durable::read(&self.dir.join(OPEN_DOOR)).map_err(unwritable)?;
        let door: Option<Door> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(door.is_some_and(|door| now.since_ms(door.opened_at).abs() <= DOOR_S * 1000))
    }

    /// Takes an identity, while the door is open. The same one again is welcome at any time: the agent may have died before it kept it.
    pub(crate) fn enrol(
        &mut self,
        enrolled: &Enrolled,
        pinned_root: Option<Sha256>,
        keys: &Keys,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let pinned_root = pinned_root.ok_or_else(|| {
            Refusal::new(
                Code::RootMismatch,
                "node.toml pins no root: run `enroll` on this host first",
            )
        })?;
        let Enrolled {
            installation,
            node_id,
            epoch,
            ..
        } = *enrolled;
        let identity = NodeIdentity {
            installation,
            node_id,
            epoch,
        };
        if !self.door_is_open(now)? && self.identity() != Some(identity) {
            return Err(Refusal::new(Code::Forbidden, "run `enroll` on this host first"));
        }
        let trust = match &self.believed {
            // The same house: its documents must not go back.
            Some(believed) if believed.stored.pinned_root == pinned_root => believed.trust.advance(&enrolled.bundle)?,
            Some(_) | None => Trust::establish(&pinned_root, &enrolled.bundle)?,
        };
        if trust.aud() != installation {
            return Err(Code::WrongAudience.into());
        }
        Device::read(&enrolled.device_chain, keys, &identity).map_err(refused)?;
        let stored = Stored {
            pinned_root,
            anchor: enrolled.bundle.anchor()?,
            bundle: enrolled.bundle.clone(),
            identity,
            device_chain: enrolled.device_chain.clone(),
            token_audiences: enrolled.token_audiences.clone(),
        };
        self.keep(stored, trust)?;
        durable::remove(&self.dir.join(OPEN_DOOR)).map_err(unwritable)
    }

    /// The next documents. Returns the manifest's version.
    pub(crate) fn advance(&mut self, bundle: &Bundle) -> Result<u64, Refusal> {
        let Some(Believed { stored, trust }) = &self.believed else {
            return Err(Code::NotEnrolled.into());
        };
        let next = trust.advance(bundle)?;
        let version = next.manifest().version;
        if stored.bundle != *bundle {
            let (anchor, bundle) = (bundle.anchor()?, bundle.clone());
            let stored = Stored {
                anchor,
                bundle,
                ..stored.clone()
            };
            self.keep(stored, next)?;
        }
        Ok(version)
    }

    /// A renewed device certificate: same key, same names, and never a shorter life than the one we have.
    pub(crate) fn renew_device(&mut self, chain: &str, keys: &Keys) -> Result<(), Refusal> {
        let Some(Believed { stored, trust }) = &self.believed else {
            return Err(Code::NotEnrolled.into());
        };
        let next = Device::read(chain, keys, &stored.identity).map_err(refused)?;
        let held = Device::read(&stored.device_chain, keys, &stored.identity).map_err(refused)?;
        if next.not_after() < held.not_after() {
            return Err(Refusal::new(
                Code::CertNameMismatch,
                "the device certificate ends before the one that is held",
            ));
        }
        let (device_chain, trust) = (chain.to_owned(), trust.clone());
        let stored = Stored {
            device_chain,
            ..stored.clone()
        };
        self.keep(stored, trust)
    }

    fn keep(&mut self, stored: Stored, trust: Trust) -> Result<(), Refusal> {
        let json = serde_json::to_vec(&stored).map_err(unwritable)?;
        self.pair.write(&json).map_err(unwritable)?;
        self.believed = Some(Believed { stored, trust });
        Ok(())
    }
}

fn refused(error: DeviceError) -> Refusal {
    let code = match error {
        DeviceError::ChainMalformed | DeviceError::OtherKey | DeviceError::OtherName(_) => Code::CertNameMismatch,
        DeviceError::CsrMalformed => Code::CsrInvalid,
        DeviceError::Sign(_) => Code::Internal,
    };
    Refusal::new(code, error.to_string())
}

fn unwritable(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::DiskFull, format!("the trust store cannot be written: {error}"))
}
