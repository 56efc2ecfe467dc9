//! What a node trusts, from one pinned hash down: the root signs a delegation, the delegation names the manifest
//! key, the manifest lists the keys that may sign tasks. Versions only grow; nothing here is fetched or stored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Sha256;
use crate::dsse::{self, Envelope};
use crate::id::InstallationId;
use crate::key::{KeyId, PublicKey};
use crate::signal::Code;
use crate::time::Timestamp;

pub const DELEGATION_TYPE: &str = "application/vnd.gpuaas.delegation.v1+json";
pub const MANIFEST_TYPE: &str = "application/vnd.gpuaas.task-keys.v1+json";

/// What a task key may sign. One key, one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    Slice,
    Allocation,
    Terminal,
    Oci,
    Diag,
}

impl Purpose {
    pub const ALL: [Purpose; 5] = [Self::Slice, Self::Allocation, Self::Terminal, Self::Oci, Self::Diag];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slice => "slice",
            Self::Allocation => "allocation",
            Self::Terminal => "terminal",
            Self::Oci => "oci",
            Self::Diag => "diag",
        }
    }
}

/// `published → active → retiring → retired`, `revoked` from any. Only an active key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyStatus {
    Published,
    Active,
    Retiring,
    Retired,
    Revoked,
}

impl KeyStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Active => "active",
            Self::Retiring => "retiring",
            Self::Retired => "retired",
            Self::Revoked => "revoked",
        }
    }

    /// Published keys verify too, so that a standby can take over at once.
    pub const fn verifies(self) -> bool {
        matches!(self, Self::Published | Self::Active | Self::Retiring)
    }
}

/// The only algorithm there is; a variant per algorithm, so that it comes from here and never from an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Alg {
    Ed25519,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delegation {
    pub aud: InstallationId,
    pub version: u64,
    pub roots: Vec<PublicKey>,
    pub threshold: usize,
    pub manifest_key: PublicKey,
    /// The operators' key, which signs the image catalogue. None: there is no catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogue_key: Option<PublicKey>,
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub aud: InstallationId,
    pub version: u64,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
    pub keys: Vec<ManifestKey>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManifestKey {
    pub keyid: KeyId,
    pub alg: Alg,
    pub public: PublicKey,
    pub purposes: Vec<Purpose>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub status: KeyStatus,
    /// When it got this status. Manifests of the first builds do not say: long ago.
    #[serde(default = "long_ago")]
    pub since: Timestamp,
    /// The first manifest that listed it: whoever has that one or a later one knows the key.
    #[serde(default)]
    pub added_in: u64,
}

impl Manifest {
    /// Whatever its status is.
    pub fn key(&self, keyid: &KeyId) -> Option<&ManifestKey> {
        self.keys.iter().find(|key| key.keyid == *keyid)
    }

    /// The one key of this purpose that signs, or the one that stands by.
    pub fn with_status(&self, purpose: Purpose, status: KeyStatus) -> Option<&ManifestKey> {
        self.keys
            .iter()
            .find(|key| key.status == status && key.purposes.contains(&purpose))
    }

    pub fn revokes(&self, keyid: &KeyId) -> bool {
        self.key(keyid).is_some_and(|key| key.status == KeyStatus::Revoked)
    }
}

impl Bundle {
    /// The hash of a root under which a newcomer can verify this bundle: one that is listed and has signed. The bundle
    /// has been verified.
    pub fn anchor(&self) -> Result<Sha256, Code> {
        let payload = self.delegation.payload_unverified()?;
        let delegation: Delegation = dsse::parse_payload(&payload).map_err(|(code, _)| code)?;
        let mut roots = delegation.roots.iter().map(|root| Sha256::of(root.as_bytes()));
        roots
            .find(|root| Trust::establish(root, self).is_ok())
            .ok_or(Code::ManifestRejected)
    }
}

fn long_ago() -> Timestamp {
    Timestamp::from_millis(0)
}

/// The two documents as they travel and as they are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    pub delegation: Envelope,
    pub manifest: Envelope,
}

/// Verified trust. It can only be made by `establish` and replaced by `advance`.
#[derive(Clone, Debug)]
pub struct Trust {
    delegation: Delegation,
    manifest: Manifest,
}

impl Trust {
    /// First contact: the delegation must be signed by the root whose hash was pinned.
    pub fn establish(pinned_root: &Sha256, bundle: &Bundle) -> Result<Self, Code> {
        let (delegation, payload) = read_delegation(&bundle.delegation)?;
        let pinned = delegation
            .roots
            .iter()
            .find(|root| Sha256::of(root.as_bytes()) == *pinned_root)
            .ok_or(Code::RootMismatch)?;
        if bundle.delegation.count_signers(&payload, &[*pinned]) != 1
            || bundle.delegation.count_signers(&payload, &delegation.roots) < delegation.threshold
        {
            return Err(Code::RootMismatch);
        }
        let manifest = read_manifest(&delegation, &bundle.manifest)?;
        Ok(Self { delegation, manifest })
    }

    /// The next documents. A new delegation needs the old roots' threshold and its own; versions never go back;
    /// the same version must be the same document.
    pub fn advance(&self, bundle: &Bundle) -> Result<Self, Code> {
        let (delegation, payload) = read_delegation(&bundle.delegation)?;
        // The same one again has to be signed as well: it is kept as it came, and has to convince after a restart.
        let old = bundle.delegation.count_signers(&payload, &self.delegation.roots) >= self.delegation.threshold;
        if !old {
            return Err(Code::ManifestRejected);
        }
        if delegation != self.delegation {
            let new = bundle.delegation.count_signers(&payload, &delegation.roots) >= delegation.threshold;
            let same_house = delegation.aud == self.delegation.aud;
            if !(new && same_house && delegation.version > self.delegation.version) {
                return Err(Code::ManifestRejected);
            }
        }
        let manifest = read_manifest(&delegation, &bundle.manifest)?;
        if manifest.version < self.manifest.version
            || (manifest.version == self.manifest.version && manifest != self.manifest)
        {
            return Err(Code::ManifestRejected);
        }
        Ok(Self { delegation, manifest })
    }

    pub fn aud(&self) -> InstallationId {
        self.manifest.aud
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub fn expired(&self, now: Timestamp) -> bool {
        now > self.manifest.expires_at || now > self.delegation.expires_at
    }

    pub fn delegation(&self) -> &Delegation {
        &self.delegation
    }

    /// The key, if it is known and may verify now.
    pub fn key(&self, keyid: &KeyId, now: Timestamp) -> Result<&ManifestKey, Code> {
        let key = self.manifest.key(keyid).ok_or(Code::KeyUnknown)?;
        if key.status == KeyStatus::Revoked {
            return Err(Code::KeyRevoked);
        }
        if !key.status.verifies() || now < key.not_before || now > key.not_after {
            return Err(Code::KeyNotUsable);
        }
        Ok(key)
    }
}

fn read_delegation(envelope: &Envelope) -> Result<(Delegation, Vec<u8>), Code> {
    let payload = envelope.payload_unverified()?;
    if envelope.payload_type != DELEGATION_TYPE {
        return Err(Code::PayloadTypeMismatch);
    }
    let delegation: Delegation = dsse::parse_payload(&payload).map_err(|(code, _)| code)?;
    let mut ids: Vec<_> = delegation.roots.iter().map(PublicKey::keyid).collect();
    ids.sort_unstable();
    ids.dedup();
    // A threshold of zero would accept anything, a doubled root would count for two.
    if delegation.threshold == 0 || ids.len() != delegation.roots.len() || delegation.threshold > ids.len() {
        return Err(Code::ManifestRejected);
    }
    Ok((delegation, payload))
}

fn read_manifest(delegation: &Delegation, envelope: &Envelope) -> Result<Manifest, Code> {
    let payload = envelope.open(MANIFEST_TYPE, |keyid| {
        if *keyid == delegation.manifest_key.keyid() {
            Ok(delegation.manifest_key)
        } else {
            Err(Code::ManifestRejected)
        }
    });
    let payload = payload.map_err(|_| Code::ManifestRejected)?;
    let manifest: Manifest = dsse::parse_payload(&payload).map_err(|_| Code::ManifestRejected)?;
    let mut ids: Vec<_> = manifest.keys.iter().map(|k| k.keyid).collect();
    ids.sort_unstable();
    ids.dedup();
    let honest = manifest.keys.iter().all(|k| k.public.keyid() == k.keyid);
    if manifest.aud != delegation.aud || ids.len() != manifest.keys.len() || !honest {
        return Err(Code::ManifestRejected);
    }
    Ok(manifest)
}
