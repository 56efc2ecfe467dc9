//! Who may sign manifests, and which roots say so. A delegation is made offline, by people who hold root keys; here it
//! is only installed, if it follows from the one in force: signed by as many of the old roots as they ask for, and of
//! the new ones as these do, with a higher version, for a manifest key whose private half lies in our directory.

use std::path::Path;

use base::http::{Answer, ApiError};
use base::tx::Actor;
use model::dsse::{self, Envelope};
use model::key::{PublicKey, SigningKey};
use model::signal::Code;
use model::time::Timestamp;
use model::trust::{Bundle, DELEGATION_TYPE, Delegation};
use serde_json::json;

use super::edition::{Edition, no_manifest_key};
use super::files;
use crate::Fleet;

const DAY_S: i64 = 86_400;

/// Installs a signed delegation, with a manifest under its key.
pub async fn delegate(fleet: &Fleet, actor: &Actor, delegation: Envelope) -> Answer<()> {
    let edition = Edition::open(fleet, actor, "trust.delegate").await?;
    let next = read(&delegation).map_err(|_| Code::ManifestRejected)?;
    let refused = |why: &str| ApiError::new(Code::ManifestRejected).message(why);
    if next.expires_at <= edition.change.at() {
        return Err(refused("the delegation is over already"));
    }
    if next.version <= edition.keyring.delegation().version {
        return Err(refused("the delegation is not newer than the one in force"));
    }
    let key = files::manifest_key(&fleet.app.config.keys_dir, &next.manifest_key).ok_or_else(no_manifest_key)?;
    let detail = json!({
        "delegation_version": next.version, "roots": next.roots.len(), "threshold": next.threshold,
        "manifest_key": next.manifest_key.keyid(),
        "catalogue_key": next.catalogue_key.map(|key| key.keyid()), "expires_at": next.expires_at,
    });
    edition.publish_under(fleet, delegation, &key, detail).await
}

/// What shall be different from now on; the rest stays.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    pub roots: Option<Vec<PublicKey>>,
    pub threshold: Option<usize>,
    pub manifest_key: Option<PublicKey>,
    pub catalogue_key: Option<PublicKey>,
    pub days: i64,
}

/// The next delegation, signed by these roots. Needs no database and no network: this runs where the roots are.
pub fn sign_delegation(current: &Envelope, wish: Wish, roots: &[SigningKey], now: Timestamp) -> Result<Envelope, Code> {
    let last = read(current)?;
    let next = Delegation {
        aud: last.aud,
        version: last.version + 1,
        roots: wish.roots.unwrap_or(last.roots),
        threshold: wish.threshold.unwrap_or(last.threshold),
        manifest_key: wish.manifest_key.unwrap_or(last.manifest_key),
        catalogue_key: wish.catalogue_key.or(last.catalogue_key),
        expires_at: now.plus_s(wish.days * DAY_S),
    };
    let signers: Vec<&SigningKey> = roots.iter().collect();
    Ok(dsse::sign_json(DELEGATION_TYPE, &next, &signers))
}

/// Adds signatures to a delegation that somebody else has begun.
pub fn countersign(mut begun: Envelope, roots: &[SigningKey]) -> Result<Envelope, Code> {
    read(&begun)?;
    let payload = begun.payload_unverified()?;
    let signers: Vec<&SigningKey> = roots.iter().collect();
    let more = dsse::sign(DELEGATION_TYPE, &payload, &signers).signatures;
    let new = more
        .into_iter()
        .filter(|new| !begun.signatures.iter().any(|old| old.keyid == new.keyid));
    let new: Vec<_> = new.collect();
    begun.signatures.extend(new);
    Ok(begun)
}

/// A delegation from a file: alone, or with its manifest as a key directory remembers it.
pub fn parse_delegation(bytes: &[u8]) -> Result<Envelope, Code> {
    match serde_json::from_slice::<Bundle>(bytes) {
        Ok(bundle) => Ok(bundle.delegation),
        Err(_) => Envelope::parse(bytes),
    }
}

/// Makes a manifest key in the key directory, for a delegation that is yet to be signed.
pub fn make_manifest_key(dir: &Path) -> anyhow::Result<PublicKey> {
    let key = SigningKey::generate();
    files::write_new(&files::manifest_key_path(dir, key.keyid()), key.to_text().as_bytes())?;
    files::sync_dir(dir)?;
    Ok(key.public())
}

/// Makes a key in a file of its own: a root's, or the operators'.
pub fn make_key_file(path: &Path) -> anyhow::Result<PublicKey> {
    let key = SigningKey::generate();
    files::write_new(path, key.to_text().as_bytes())?;
    Ok(key.public())
}

fn read(envelope: &Envelope) -> Result<Delegation, Code> {
    if envelope.payload_type != DELEGATION_TYPE {
        return Err(Code::PayloadTypeMismatch);
    }
    dsse::parse_payload(&envelope.payload_unverified()?).map_err(|(code, _)| code)
}
