//! The signing keys of a running installation: replaced under load, revoked in an emergency, lost, expired, delegated
//! anew. Two replicas and real agents throughout, unless time itself has to be moved.

mod calendar;
mod delegation;
mod directory;
pub(crate) mod revocation;
mod rotation;

use base::testing::eventually;
use dev::key_rotations::brisk;
use dev::town::Town;
use model::api::TrustView;
use model::key::KeyId;
use model::trust::{KeyStatus, Purpose};

pub(crate) async fn trust(town: &Town) -> TrustView {
    town.api().get("/v1/trust").await.expect("the keys are shown")
}

pub(crate) fn key_of(view: &TrustView, purpose: Purpose, status: KeyStatus) -> KeyId {
    let found = view
        .keys
        .iter()
        .find(|key| (key.purpose, key.status) == (purpose, status));
    found
        .unwrap_or_else(|| panic!("no {purpose:?} key is {status:?}: {view:?}"))
        .keyid
}

/// Both replicas have this manifest or a later one.
async fn everywhere(town: &Town, version: u64) {
    for url in &town.platform.public_urls {
        let api = town.api().at(url).expect("a URL of ours");
        eventually("the replica follows", async || {
            let view: TrustView = api.get("/v1/trust").await.map_err(|e| e.to_string())?;
            match view.manifest.version >= version {
                true => Ok(()),
                false => Err(format!("manifest {}", view.manifest.version)),
            }
        })
        .await;
    }
}
