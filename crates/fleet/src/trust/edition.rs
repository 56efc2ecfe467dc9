//! The one way to publish a manifest: alone, from the newest one there is, with every new key on the disk before the
//! row is, and with its audit row, event and wake-up. A crash before the commit leaves key files that nobody mentions;
//! after it, everybody follows.

use std::sync::Arc;

use base::Change;
use base::http::{Answer, ApiError};
use base::tx::Actor;
use base::wake::Topic;
use model::dsse::{self, Envelope};
use model::key::{KeyId, SigningKey};
use model::signal::Code;
use model::trust::{Bundle, MANIFEST_TYPE, Purpose};
use serde_json::{Value, json};

use super::draft::Draft;
use super::follow::{follow, newest};
use super::{Keyring, files, store};
use crate::Fleet;

pub(super) struct Edition {
    pub(super) change: Change,
    pub(super) draft: Draft,
    pub(super) keyring: Arc<Keyring>,
}

impl Edition {
    /// Waits for its turn and starts from the newest documents.
    pub(super) async fn open(fleet: &Fleet, actor: &Actor, action: &'static str) -> Answer<Self> {
        let mut change = fleet.app.db.change(actor, action, fleet.app.installation).await?;
        store::lock(&mut change).await?;
        let keyring = newest(fleet, change.conn()).await.map_err(ApiError::internal)?;
        let version = store::free_version(change.conn(), keyring.manifest().version).await?;
        let draft = Draft::after(keyring.manifest(), version, change.at(), fleet.terms);
        Ok(Self {
            change,
            draft,
            keyring: Arc::new(keyring),
        })
    }

    /// Is the private half of this task key here?
    pub(super) fn holds(fleet: &Fleet, purpose: Purpose, keyid: KeyId) -> bool {
        let path = files::task_key_path(&fleet.app.config.keys_dir, purpose, keyid);
        files::read_key(&path).is_ok_and(|key| key.keyid() == keyid)
    }

    /// Under the delegation that is in force.
    pub(super) async fn publish(self, fleet: &Fleet, detail: Value) -> Answer<()> {
        let delegation = self.keyring.bundle.delegation.clone();
        let public = self.keyring.delegation().manifest_key;
        let key = files::manifest_key(&fleet.app.config.keys_dir, &public).ok_or_else(no_manifest_key)?;
        self.publish_under(fleet, delegation, &key, detail).await
    }

    pub(super) async fn publish_under(
        mut self,
        fleet: &Fleet,
        delegation: Envelope,
        key: &SigningKey,
        mut detail: Value,
    ) -> Answer<()> {
        let manifest = dsse::sign_json(MANIFEST_TYPE, &self.draft.manifest, &[key]);
        let bundle = Bundle { delegation, manifest };
        let dir = &fleet.app.config.keys_dir;
        // What nodes would refuse is not published: they, and we, could not go on from it.
        self.keyring
            .advance(dir, &bundle)
            .map_err(|error| ApiError::new(Code::ManifestRejected).message(error.to_string()))?;
        files::write_task_keys(dir, &self.draft.fresh).map_err(ApiError::internal)?;
        let version = self.draft.manifest.version;
        store::bundle_put(&mut self.change, version, &bundle).await?;
        let moves: Vec<Value> = self
            .draft
            .moves
            .iter()
            .map(|(verb, purpose, keyid)| json!({ "verb": verb, "purpose": purpose, "keyid": keyid }))
            .collect();
        if let Value::Object(fields) = &mut detail {
            fields.insert("manifest_version".to_owned(), json!(version));
            fields.insert("moves".to_owned(), json!(moves));
        }
        self.change.detail(detail);
        self.change.event(
            "trust.published",
            fleet.app.installation,
            json!({ "manifest_version": version, "moves": moves }),
        );
        self.change.wake(Topic::Trust);
        self.change.commit().await?;
        tracing::info!(manifest = version, ?moves, "manifest published");
        // The loop would do it, too; but whoever asked wants to see it done.
        follow(fleet).await.map(drop).map_err(ApiError::internal)
    }
}

pub(super) fn no_manifest_key() -> ApiError {
    ApiError::new(Code::SigningKeyMissing)
        .message("the private half of the manifest key does not lie in our key directory")
}
