//! `trust init`: every key an installation starts with, the first delegation and the first manifest. The directory
//! appears whole or not at all; run again, it finishes what a crash left and changes nothing else.

use std::path::Path;

use base::App;
use base::tx::Actor;
use model::digest::Sha256;
use model::dsse::{self, Envelope};
use model::key::SigningKey;
use model::time::Timestamp;
use model::trust::{
    Alg, Bundle, DELEGATION_TYPE, Delegation, KeyStatus, MANIFEST_TYPE, Manifest, ManifestKey, Purpose,
};

use super::Keyring;
use super::keyring::{KeyringError, make_dir, task_key_path, write_new};
use super::store;
use crate::certificate::Ca;

const MANIFEST_DAYS: i64 = 90;
const DELEGATION_DAYS: i64 = 365;
const DAY_S: i64 = 86_400;

/// What a person has to know afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitReport {
    pub root_sha256: Sha256,
    /// False when the installation already had its keys.
    pub made: bool,
}

/// Makes the key directory and stores the first bundle.
pub async fn init(app: &App, dir: &Path, dev: bool) -> anyhow::Result<InitReport> {
    if let Some(newest) = store::bundle_latest(app.db.read()).await? {
        let keyring = Keyring::load(dir, app.installation, &newest)?;
        return Ok(InitReport {
            root_sha256: keyring.root_sha256(),
            made: false,
        });
    }
    if !dir.join("manifest.json").exists() {
        make_keys(app, dir, dev)?;
    }
    let bundle = Bundle {
        delegation: read(dir, "delegation.json")?,
        manifest: read(dir, "manifest.json")?,
    };
    let keyring = Keyring::load(dir, app.installation, &bundle)?;
    let mut change = app
        .db
        .change(&Actor::system("trust-init"), "trust.init", app.installation)
        .await?;
    store::bundle_put(&mut change, keyring.manifest().version, &bundle).await?;
    change.event(
        "trust.published",
        app.installation,
        serde_json::json!({ "manifest_version": keyring.manifest().version }),
    );
    change.commit().await?;
    Ok(InitReport {
        root_sha256: keyring.root_sha256(),
        made: true,
    })
}

fn make_keys(app: &App, dir: &Path, dev: bool) -> anyhow::Result<()> {
    let new = dir.with_extension("new");
    if new.exists() {
        std::fs::remove_dir_all(&new)?;
    }
    make_dir(&new)?;
    let now = app.clock.now();
    let root = fresh(&new.join("root.key"))?;
    let manifest_key = fresh(&new.join("manifest.key"))?;
    fresh(&new.join("intent.key"))?;
    let delegation = Delegation {
        aud: app.installation,
        version: 1,
        roots: vec![root.public()],
        threshold: 1,
        manifest_key: manifest_key.public(),
        expires_at: now.plus_s(DELEGATION_DAYS * DAY_S),
    };
    let mut keys = Vec::new();
    for purpose in Purpose::ALL {
        // The standby is published from the first day, so that every node knows the next key before it is needed.
        for status in [KeyStatus::Active, KeyStatus::Published] {
            keys.push(task_key(&new, purpose, status, now)?);
        }
    }
    let manifest = Manifest {
        aud: app.installation,
        version: 1,
        issued_at: now,
        expires_at: now.plus_s(MANIFEST_DAYS * DAY_S),
        keys,
    };
    Ca::create(&new, dev, now)?;
    let delegation = dsse::sign_json(DELEGATION_TYPE, &delegation, &[&root]);
    let manifest = dsse::sign_json(MANIFEST_TYPE, &manifest, &[&manifest_key]);
    write_new(&new.join("delegation.json"), &delegation.to_bytes())?;
    write_new(&new.join("manifest.json"), &manifest.to_bytes())?;
    std::fs::File::open(&new)?.sync_all()?;
    if let Some(parent) = dir.parent() {
        make_dir(parent)?;
    }
    std::fs::rename(&new, dir)?;
    // The database will trust these keys from the next commit on: they must be there after a power cut too.
    if let Some(parent) = dir.parent() {
        std::fs::File::open(parent)?.sync_all()?;
    }
    Ok(())
}

fn fresh(path: &Path) -> Result<SigningKey, KeyringError> {
    let key = SigningKey::generate();
    write_new(path, key.to_text().as_bytes())?;
    Ok(key)
}

fn task_key(dir: &Path, purpose: Purpose, status: KeyStatus, now: Timestamp) -> Result<ManifestKey, KeyringError> {
    let key = SigningKey::generate();
    write_new(&task_key_path(dir, purpose, key.keyid()), key.to_text().as_bytes())?;
    Ok(ManifestKey {
        keyid: key.keyid(),
        alg: Alg::Ed25519,
        public: key.public(),
        purposes: vec![purpose],
        not_before: now.plus_s(-DAY_S),
        not_after: now.plus_s(DELEGATION_DAYS * DAY_S),
        status,
    })
}

fn read(dir: &Path, name: &str) -> anyhow::Result<Envelope> {
    let bytes = std::fs::read(dir.join(name))?;
    Envelope::parse(&bytes).map_err(|code| anyhow::anyhow!("{name}: {code}"))
}
