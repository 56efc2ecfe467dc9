//! Rotation: the standby takes over once every node that counts knows it. Who is waited for is said by name; the loop
//! finishes what a person has begun, and begins by itself what is due. `now` waits for nobody: nodes that are behind
//! learn the key with the manifest, which they fetch before the first task that it signed.

use base::http::Answer;
use base::tx::Actor;
use model::key::KeyId;
use model::trust::Purpose;
use serde_json::json;

use super::edition::Edition;
use super::store;
use crate::Fleet;

/// Rotates these purposes, or notes that they wait.
pub async fn rotate(fleet: &Fleet, actor: &Actor, purposes: &[Purpose], now: bool, reason: Option<&str>) -> Answer<()> {
    let mut edition = Edition::open(fleet, actor, "trust.rotate").await?;
    let mut waiting = Vec::new();
    for purpose in purposes {
        if !advance(fleet, &mut edition, *purpose, now).await? {
            store::want(&mut edition.change, *purpose).await?;
            waiting.push(*purpose);
        }
    }
    let detail = json!({ "purposes": purposes, "now": now, "reason": reason, "waiting": waiting });
    if edition.draft.moves.is_empty() {
        edition.change.detail(detail);
        edition.change.event(
            "trust.rotation_waits",
            fleet.app.installation,
            json!({ "purposes": waiting }),
        );
        edition.change.commit().await?;
        return Ok(());
    }
    edition.publish(fleet, detail).await
}

/// One purpose, if it may. False: nodes are waited for.
pub(super) async fn advance(fleet: &Fleet, edition: &mut Edition, purpose: Purpose, now: bool) -> Answer<bool> {
    let held = |keyid: KeyId| Edition::holds(fleet, purpose, keyid);
    let standby = edition.draft.standby(purpose).map(|key| (key.keyid, key.added_in));
    let known = match standby {
        Some((keyid, added_in)) if held(keyid) => {
            let heard_after = edition.change.at().plus_s(-fleet.terms.silence_s);
            let behind = store::behind(edition.change.conn(), added_in, heard_after, 1).await?;
            behind.is_empty()
        }
        _ if now => true,
        _ => {
            // Nobody could sign with it: publish another one and wait until it is known.
            edition.draft.replace_standby(purpose);
            false
        }
    };
    if known || now {
        edition.draft.activate(purpose, held);
        store::done(&mut edition.change, purpose).await?;
    }
    Ok(known || now)
}
