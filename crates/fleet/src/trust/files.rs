//! The key files of the control plane, each 0600 and written once, and the newest documents that this directory has
//! seen. A file is on the disk, its name included, before any document mentions its key; what a crash leaves behind is
//! a file that nobody mentions. Replicas share the directory: whoever cannot see a file cannot sign with it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::dsse::Envelope;
use model::key::{KeyId, PublicKey, SigningKey};
use model::time::Timestamp;
use model::trust::{Bundle, KeyStatus, Manifest, Purpose};

use super::keyring::KeyringError;

/// The newest verified documents; what `init` wrote beside it stays as it is.
const NEWEST: &str = "trust.json";
/// Files of no listed key may belong to a manifest that is about to be committed; later they are left-overs.
const LEFT_OVER: Duration = Duration::from_secs(86_400);
/// A retired key's file goes after this long.
const RETIRED_FOR_S: i64 = 86_400;

pub(super) fn task_key_path(dir: &Path, purpose: Purpose, keyid: KeyId) -> PathBuf {
    dir.join(format!("task-{}-{keyid}.key", purpose.as_str()))
}

pub(super) fn manifest_key_path(dir: &Path, keyid: KeyId) -> PathBuf {
    dir.join(format!("manifest-{keyid}.key"))
}

/// The private half of the manifest key that is delegated to, if it lies here: the first one, or one that was made
/// for a later delegation.
pub(super) fn manifest_key(dir: &Path, public: &PublicKey) -> Option<SigningKey> {
    let places = [dir.join("manifest.key"), manifest_key_path(dir, public.keyid())];
    let mut keys = places.iter().filter_map(|path| read_key(path).ok());
    keys.find(|key| key.public() == *public)
}

pub(super) fn read_key(path: &Path) -> Result<SigningKey, KeyringError> {
    let text = fs::read_to_string(path).map_err(|source| failed(path, source))?;
    SigningKey::from_text(&text).map_err(|_| KeyringError::Malformed { path: path.to_owned() })
}

/// Writes a new 0600 file and syncs it. An existing one is an error: keys are made once.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), KeyringError> {
    write(path, bytes).map_err(|source| failed(path, source))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// New task keys, durable with their names.
pub(super) fn write_task_keys(dir: &Path, keys: &[(Purpose, SigningKey)]) -> Result<(), KeyringError> {
    for (purpose, key) in keys {
        write_new(&task_key_path(dir, *purpose, key.keyid()), key.to_text().as_bytes())?;
    }
    sync_dir(dir)
}

pub(super) fn sync_dir(dir: &Path) -> Result<(), KeyringError> {
    let sync = || fs::File::open(dir)?.sync_all();
    sync().map_err(|source| failed(dir, source))
}

pub(super) fn make_dir(path: &Path) -> Result<(), KeyringError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| failed(path, source))
}

/// The newest documents that this directory has seen.
pub(super) fn newest(dir: &Path) -> Result<Bundle, KeyringError> {
    let path = dir.join(NEWEST);
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|_| KeyringError::Malformed { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Bundle {
            delegation: document(&dir.join("delegation.json"))?,
            manifest: document(&dir.join("manifest.json"))?,
        }),
        Err(source) => Err(failed(&path, source)),
    }
}

/// Remembers documents, so that this directory never believes older ones again, whatever the database says.
pub(super) fn remember(dir: &Path, bundle: &Bundle) -> Result<(), KeyringError> {
    let bytes = serde_json::to_vec(bundle).expect("strings only");
    remember_document(dir, NEWEST, &bytes)
}

/// The same for another document, under another name.
pub(crate) fn remember_document(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), KeyringError> {
    let new = dir.join(format!(".{name}.{:016x}", rand::random::<u64>()));
    let path = dir.join(name);
    let replaced = write(&new, bytes).and_then(|()| fs::rename(&new, &path));
    if replaced.is_err() {
        // The temporary one is of no use to anybody; that it cannot be removed changes nothing.
        fs::remove_file(&new).ok();
    }
    replaced.map_err(|source| failed(&path, source))?;
    sync_dir(dir)
}

/// Removes the files of keys that will never sign again, and those that no manifest has come to mention.
pub(super) fn sweep(dir: &Path, manifest: &Manifest, now: Timestamp) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(keyid) = name.to_str().and_then(task_keyid) else {
            continue;
        };
        let over = match manifest.key(&keyid) {
            Some(key) if key.status == KeyStatus::Revoked => true,
            Some(key) => key.status == KeyStatus::Retired && now.since_ms(key.since) > RETIRED_FOR_S * 1000,
            None => entry.metadata()?.modified()?.elapsed().is_ok_and(|age| age > LEFT_OVER),
        };
        if over {
            match fs::remove_file(entry.path()) {
                Ok(()) => removed += 1,
                // Another replica was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(removed)
}

fn task_keyid(name: &str) -> Option<KeyId> {
    let name = name.strip_prefix("task-")?.strip_suffix(".key")?;
    name.rsplit_once('-')?.1.parse().ok()
}

/// What was remembered under this name, if it can be read.
pub(crate) fn read_document(path: &Path) -> Option<Envelope> {
    Envelope::parse(&fs::read(path).ok()?).ok()
}

fn document(path: &Path) -> Result<Envelope, KeyringError> {
    let bytes = fs::read(path).map_err(|source| failed(path, source))?;
    Envelope::parse(&bytes).map_err(|_| KeyringError::Malformed { path: path.to_owned() })
}

fn failed(path: &Path, source: io::Error) -> KeyringError {
    let path = path.to_owned();
    KeyringError::File { path, source }
}
