//! The emergency: a key that may be in other hands. The standby signs from the same moment on, every held wait ends so
//! that nodes hear of it, and what the key had signed and nobody has begun is issued again under the new one.

use base::http::{Answer, ApiError};
use base::tx::Actor;
use model::key::KeyId;
use model::signal::Code;
use model::trust::KeyStatus;
use serde_json::json;

use super::edition::Edition;
use super::store;
use crate::metrics::ALARMS;
use crate::{Fleet, task};

pub async fn revoke(fleet: &Fleet, actor: &Actor, keyid: KeyId, reason: &str) -> Answer<()> {
    let mut edition = Edition::open(fleet, actor, "trust.revoke").await?;
    let key = edition.draft.manifest.key(&keyid).cloned().ok_or(Code::NotFound)?;
    if key.status == KeyStatus::Revoked {
        return Err(ApiError::new(Code::StateConflict).message("the key is revoked already"));
    }
    for purpose in &key.purposes {
        edition
            .draft
            .revoke(keyid, |candidate| Edition::holds(fleet, *purpose, candidate));
        if key.status == KeyStatus::Active {
            // Whoever waited for a rotation has got one.
            store::done(&mut edition.change, *purpose).await?;
        }
    }
    edition.change.event(
        "trust.revoked",
        fleet.app.installation,
        json!({ "keyid": keyid, "reason": reason }),
    );
    edition
        .publish(fleet, json!({ "keyid": keyid, "reason": reason, "was": key.status }))
        .await?;
    metrics::counter!(ALARMS, "code" => Code::KeyRevoked.as_str()).increment(1);
    tracing::error!(%keyid, reason, "a signing key was revoked");
    task::reissue::queued(fleet).await.map(drop)
}
