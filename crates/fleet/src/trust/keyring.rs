//! What this process believes and what it can sign with. What is believed begins with the documents in our own key
//! directory and only advances; a bundle from the database counts only if it follows from there, because whoever can
//! write rows could otherwise bring a root of their own. A key whose file is not here is not signed with: the one
//! before it goes on as long as nodes believe it, and then nothing is signed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use model::digest::Sha256;
use model::id::InstallationId;
use model::key::{KeyId, PublicKey, SigningKey};
use model::signal::Code;
use model::time::Timestamp;
use model::trust::{Bundle, Delegation, KeyStatus, Manifest, Purpose, Trust};

use super::files;

/// What signs, and with which key right now.
#[derive(Clone, Debug)]
pub struct Keyring {
    pub bundle: Bundle,
    /// The same as nodes are given it. After a change every node asks for it at once.
    pub(crate) written: Bytes,
    pub intent: SigningKey,
    trust: Trust,
    root_sha256: Sha256,
    tasks: BTreeMap<Purpose, SigningKey>,
    missing: Vec<(Purpose, KeyId)>,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    #[error("{}: cannot be read or written", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{}: not a key file of this platform", path.display())]
    Malformed { path: PathBuf },
    #[error("these documents do not follow from the ones that are believed: {0}")]
    Manifest(Code),
    #[error("these keys belong to {keys}, and the database to {database}")]
    OtherInstallation {
        keys: InstallationId,
        database: InstallationId,
    },
    #[error("no key file for the active {} key {keyid}", purpose.as_str())]
    Missing { purpose: Purpose, keyid: KeyId },
}

fn written(bundle: &Bundle) -> Bytes {
    serde_json::to_vec(bundle).expect("a bundle serialises").into()
}

impl Keyring {
    /// As of the newest documents that the key directory has seen.
    pub fn load(dir: &Path, aud: InstallationId) -> Result<Self, KeyringError> {
        let bundle = files::newest(dir)?;
        let root_sha256 = bundle.anchor().map_err(KeyringError::Manifest)?;
        let trust = Trust::establish(&root_sha256, &bundle).map_err(KeyringError::Manifest)?;
        if trust.aud() != aud {
            return Err(KeyringError::OtherInstallation {
                keys: trust.aud(),
                database: aud,
            });
        }
        let intent = files::read_key(&dir.join("intent.key"))?;
        let keyring = Self {
            written: written(&bundle),
            bundle,
            intent,
            trust,
            root_sha256,
            tasks: BTreeMap::new(),
            missing: Vec::new(),
        };
        Ok(keyring.with_files(dir))
    }

    /// As of a newer bundle, if it follows from what is believed now.
    pub fn advance(&self, dir: &Path, newest: &Bundle) -> Result<Self, KeyringError> {
        let trust = self.trust.advance(newest).map_err(KeyringError::Manifest)?;
        let next = Self {
            bundle: newest.clone(),
            written: written(newest),
            root_sha256: newest.anchor().map_err(KeyringError::Manifest)?,
            trust,
            ..self.clone()
        };
        Ok(next.with_files(dir))
    }

    /// Looks for the files of the active keys, again if need be.
    pub(super) fn with_files(mut self, dir: &Path) -> Self {
        let before = std::mem::take(&mut self.tasks);
        self.missing.clear();
        for purpose in Purpose::ALL {
            let Some(active) = self.trust.manifest().with_status(purpose, KeyStatus::Active) else {
                continue;
            };
            let file = files::read_key(&files::task_key_path(dir, purpose, active.keyid)).ok();
            if let Some(key) = file.filter(|key| key.public() == active.public) {
                self.tasks.insert(purpose, key);
                continue;
            }
            self.missing.push((purpose, active.keyid));
            let still = |key: &&SigningKey| {
                let listed = self.trust.manifest().key(&key.keyid());
                listed.is_some_and(|listed| listed.status.verifies())
            };
            if let Some(last) = before.get(&purpose).filter(still) {
                self.tasks.insert(purpose, last.clone());
            }
        }
        self
    }

    pub fn manifest(&self) -> &Manifest {
        self.trust.manifest()
    }

    pub fn delegation(&self) -> &Delegation {
        self.trust.delegation()
    }

    /// May nothing that acts be signed any more?
    pub fn expired(&self, now: Timestamp) -> bool {
        self.trust.expired(now)
    }

    pub fn task_key(&self, purpose: Purpose) -> Option<&SigningKey> {
        self.tasks.get(&purpose)
    }

    /// Active keys whose files are not in our directory.
    pub fn missing(&self) -> &[(Purpose, KeyId)] {
        &self.missing
    }

    pub fn intent_public(&self) -> PublicKey {
        self.intent.public()
    }

    /// What a newcomer pins.
    pub fn root_sha256(&self) -> Sha256 {
        self.root_sha256
    }
}
