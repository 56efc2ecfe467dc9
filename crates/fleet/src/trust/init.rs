//! `trust init`: every key an installation starts with, the first delegation and the first manifest. The directory
//! appears whole or not at all; run again, it finishes what a crash left and changes nothing else.

use std::path::Path;

use base::App;
use base::tx::Actor;
use model::digest::Sha256;
use model::dsse;
use model::key::SigningKey;
use model::trust::{DELEGATION_TYPE, Delegation, MANIFEST_TYPE};

use super::draft::{Draft, Terms};
use super::files::{self, make_dir, write_new};
use super::keyring::{Keyring, KeyringError};
use super::store;
use crate::certificate::Ca;

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
    if store::any(app.db.read()).await? {
        let keyring = Keyring::load(dir, app.installation)?;
        if let Some((purpose, keyid)) = keyring.missing().first().copied() {
            return Err(KeyringError::Missing { purpose, keyid }.into());
        }
        return Ok(InitReport {
            root_sha256: keyring.root_sha256(),
            made: false,
        });
    }
    if !dir.join("manifest.json").exists() {
        make_keys(app, dir, dev)?;
    }
    let keyring = Keyring::load(dir, app.installation)?;
    let mut change = app
        .db
        .change(&Actor::system("trust-init"), "trust.init", app.installation)
        .await?;
    store::bundle_put(&mut change, keyring.manifest().version, &keyring.bundle).await?;
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
    let catalogue_key = fresh(&new.join("catalogue.key"))?;
    let delegation = Delegation {
        aud: app.installation,
        version: 1,
        roots: vec![root.public()],
        threshold: 1,
        manifest_key: manifest_key.public(),
        catalogue_key: Some(catalogue_key.public()),
        expires_at: now.plus_s(DELEGATION_DAYS * DAY_S),
    };
    let draft = Draft::first(app.installation, now, Terms::from_config(&app.config));
    files::write_task_keys(&new, &draft.fresh)?;
    Ca::create(&new, dev, now)?;
    let delegation = dsse::sign_json(DELEGATION_TYPE, &delegation, &[&root]);
    let manifest = dsse::sign_json(MANIFEST_TYPE, &draft.manifest, &[&manifest_key]);
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
