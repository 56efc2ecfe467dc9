//! The key files of the control plane, one per purpose, each 0600. Only a process with the api role loads them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::digest::Sha256;
use model::dsse;
use model::key::{KeyId, PublicKey, SigningKey};
use model::signal::Code;
use model::trust::{Bundle, Delegation, KeyStatus, Manifest, Purpose};

/// What signs, and with which key right now.
#[derive(Clone, Debug)]
pub struct Keyring {
    pub bundle: Bundle,
    pub manifest: Manifest,
    pub intent: SigningKey,
    root_sha256: Sha256,
    tasks: BTreeMap<Purpose, SigningKey>,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    #[error("{}: cannot be read or written", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{}: not a key file of this platform", path.display())]
    Malformed { path: PathBuf },
    #[error("the manifest in the database is not the one of these keys: {0}")]
    Manifest(Code),
    #[error("no key file for the active {} key {keyid}", purpose.as_str())]
    Missing { purpose: Purpose, keyid: KeyId },
}

impl Keyring {
    /// Loads the active key of every purpose that the manifest names.
    pub fn load(dir: &Path, bundle: Bundle) -> Result<Self, KeyringError> {
        let delegation: Delegation = bundle
            .delegation
            .payload_unverified()
            .and_then(|payload| dsse::parse_payload(&payload).map_err(|(code, _)| code))
            .map_err(KeyringError::Manifest)?;
        let root = delegation
            .roots
            .first()
            .ok_or(KeyringError::Manifest(Code::RootMismatch))?;
        let root_sha256 = Sha256::of(root.as_bytes());
        // The documents come from a database that somebody else may have written: they must hold together.
        let trust = model::trust::Trust::establish(&root_sha256, &bundle).map_err(KeyringError::Manifest)?;
        let manifest = trust.manifest().clone();
        let mut tasks = BTreeMap::new();
        for key in manifest.keys.iter().filter(|key| key.status == KeyStatus::Active) {
            for purpose in &key.purposes {
                let path = task_key_path(dir, *purpose, key.keyid);
                if !path.exists() {
                    return Err(KeyringError::Missing {
                        purpose: *purpose,
                        keyid: key.keyid,
                    });
                }
                tasks.insert(*purpose, read_key(&path)?);
            }
        }
        Ok(Self {
            manifest,
            bundle,
            intent: read_key(&dir.join("intent.key"))?,
            root_sha256,
            tasks,
        })
    }

    pub fn task_key(&self, purpose: Purpose) -> Option<&SigningKey> {
        self.tasks.get(&purpose)
    }

    pub fn intent_public(&self) -> PublicKey {
        self.intent.public()
    }

    pub fn root_sha256(&self) -> Sha256 {
        self.root_sha256
    }
}

pub(super) fn task_key_path(dir: &Path, purpose: Purpose, keyid: KeyId) -> PathBuf {
    dir.join(format!("task-{}-{keyid}.key", purpose.as_str()))
}

pub(super) fn read_key(path: &Path) -> Result<SigningKey, KeyringError> {
    let text = fs::read_to_string(path).map_err(|source| KeyringError::File {
        path: path.to_owned(),
        source,
    })?;
    SigningKey::from_text(&text).map_err(|_| KeyringError::Malformed { path: path.to_owned() })
}

/// Writes a new 0600 file and syncs it. An existing one is an error: keys are made once.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), KeyringError> {
    let write = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|source| KeyringError::File {
        path: path.to_owned(),
        source,
    })
}

pub(super) fn make_dir(path: &Path) -> Result<(), KeyringError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| KeyringError::File {
            path: path.to_owned(),
            source,
        })
}
