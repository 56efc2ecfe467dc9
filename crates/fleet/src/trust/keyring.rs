//! The key files of the control plane, one per purpose, each 0600. Only a process with the api role loads them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::digest::Sha256;
use model::dsse::{self, Envelope};
use model::id::InstallationId;
use model::key::{KeyId, PublicKey, SigningKey};
use model::signal::Code;
use model::time::Timestamp;
use model::trust::{Bundle, Delegation, KeyStatus, Manifest, Purpose, Trust};

/// What signs, and with which key right now.
#[derive(Clone, Debug)]
pub struct Keyring {
    pub bundle: Bundle,
    pub intent: SigningKey,
    trust: Trust,
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
    #[error("these keys belong to {keys}, and the database to {database}")]
    OtherInstallation {
        keys: InstallationId,
        database: InstallationId,
    },
    #[error("no key file for the active {} key {keyid}", purpose.as_str())]
    Missing { purpose: Purpose, keyid: KeyId },
}

impl Keyring {
    /// Loads the active key of every purpose that the newest manifest names. What is trusted begins with the root in
    /// our own key directory; a bundle from the database only counts if it follows from there, because whoever can
    /// write rows could otherwise bring a root of their own.
    pub fn load(dir: &Path, aud: InstallationId, newest: &Bundle) -> Result<Self, KeyringError> {
        let own = Bundle {
            delegation: read_document(&dir.join("delegation.json"))?,
            manifest: read_document(&dir.join("manifest.json"))?,
        };
        let root_sha256 = first_root(&own)?;
        let trust = Trust::establish(&root_sha256, &own).map_err(KeyringError::Manifest)?;
        if trust.aud() != aud {
            return Err(KeyringError::OtherInstallation {
                keys: trust.aud(),
                database: aud,
            });
        }
        Self::follow(dir, &trust, root_sha256, newest)
    }

    /// The keys as of a newer bundle, if it follows from what is trusted now.
    pub fn advance(&self, dir: &Path, newest: &Bundle) -> Result<Self, KeyringError> {
        Self::follow(dir, &self.trust, self.root_sha256, newest)
    }

    fn follow(dir: &Path, trusted: &Trust, root_sha256: Sha256, newest: &Bundle) -> Result<Self, KeyringError> {
        let trust = trusted.advance(newest).map_err(KeyringError::Manifest)?;
        let mut tasks = BTreeMap::new();
        for key in trust
            .manifest()
            .keys
            .iter()
            .filter(|key| key.status == KeyStatus::Active)
        {
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
        let intent = read_key(&dir.join("intent.key"))?;
        Ok(Self {
            bundle: newest.clone(),
            trust,
            intent,
            root_sha256,
            tasks,
        })
    }

    pub fn manifest(&self) -> &Manifest {
        self.trust.manifest()
    }

    /// May nothing that acts be signed any more?
    pub fn expired(&self, now: Timestamp) -> bool {
        self.trust.expired(now)
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

/// The root that our own delegation was made by.
fn first_root(bundle: &Bundle) -> Result<Sha256, KeyringError> {
    let payload = bundle.delegation.payload_unverified().map_err(KeyringError::Manifest)?;
    let delegation: Delegation = dsse::parse_payload(&payload).map_err(|(code, _)| KeyringError::Manifest(code))?;
    let root = delegation
        .roots
        .first()
        .ok_or(KeyringError::Manifest(Code::RootMismatch))?;
    Ok(Sha256::of(root.as_bytes()))
}

fn read_document(path: &Path) -> Result<Envelope, KeyringError> {
    let bytes = fs::read(path).map_err(|source| KeyringError::File {
        path: path.to_owned(),
        source,
    })?;
    Envelope::parse(&bytes).map_err(|_| KeyringError::Malformed { path: path.to_owned() })
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
