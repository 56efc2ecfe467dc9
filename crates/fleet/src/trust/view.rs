//! The keys as people see them: what signs, what stands by, who knows it, what is waited for, what comes to its end.

use base::http::Answer;
use model::api::{
    BehindView, DelegationView, ManifestView, RotationView, TrustKeyView, TrustView, TrustWarning, Waiting,
};
use model::digest::Sha256;
use model::signal::Code;
use model::time::Timestamp;
use model::trust::{KeyStatus, Manifest, Purpose};
use sqlx::PgConnection;

use super::{Keyring, store, upkeep};
use crate::Fleet;

const NAMED_MOST: i64 = 100;
const DAY_MS: i64 = 86_400_000;

pub async fn view(fleet: &Fleet) -> Answer<TrustView> {
    let (keyring, now) = (fleet.keyring(), fleet.app.clock.now());
    let (manifest, delegation) = (keyring.manifest(), keyring.delegation());
    let heard_after = now.plus_s(-fleet.terms.silence_s);
    let mut conn = fleet.app.db.read().acquire().await?;
    let knowledge = store::knowledge(&mut conn, heard_after).await?;
    let nodes = knowledge.iter().map(|(_, count)| count).sum();
    let known_by = |added_in: u64| knowledge.iter().filter(|(v, _)| *v >= added_in).map(|(_, n)| n).sum();
    let mut keys: Vec<TrustKeyView> = manifest
        .keys
        .iter()
        .flat_map(|key| key.purposes.iter().map(move |purpose| (key, *purpose)))
        .map(|(key, purpose)| TrustKeyView {
            keyid: key.keyid,
            purpose,
            status: key.status,
            since: key.since,
            not_after: key.not_after,
            added_in: key.added_in,
            known_by: known_by(key.added_in),
            nodes,
        })
        .collect();
    keys.sort_by_key(|key| (key.purpose, rank(key.status), std::cmp::Reverse(key.since)));
    let rotations = rotations(&mut conn, manifest, heard_after, now).await?;
    Ok(TrustView {
        manifest: ManifestView {
            version: manifest.version,
            issued_at: manifest.issued_at,
            expires_at: manifest.expires_at,
        },
        delegation: DelegationView {
            version: delegation.version,
            expires_at: delegation.expires_at,
            threshold: delegation.threshold,
            roots: delegation
                .roots
                .iter()
                .map(|root| Sha256::of(root.as_bytes()))
                .collect(),
            manifest_key: delegation.manifest_key.keyid(),
            document: keyring.bundle.delegation.clone(),
        },
        nodes,
        keys,
        rotations,
        warnings: warnings(&keyring, now),
    })
}

/// What matters first stands first.
fn rank(status: KeyStatus) -> u8 {
    match status {
        KeyStatus::Active => 0,
        KeyStatus::Published => 1,
        KeyStatus::Retiring => 2,
        KeyStatus::Revoked => 3,
        KeyStatus::Retired => 4,
    }
}

async fn rotations(
    conn: &mut PgConnection,
    manifest: &Manifest,
    heard_after: Timestamp,
    now: Timestamp,
) -> Answer<Vec<RotationView>> {
    let mut views = Vec::new();
    for wanted in store::wanted(conn).await? {
        let Some(purpose) = wanted.purpose() else { continue };
        let standby = manifest.with_status(purpose, KeyStatus::Published);
        let added_in = standby.map_or(manifest.version, |key| key.added_in);
        let behind = store::behind(conn, added_in, heard_after, NAMED_MOST).await?;
        let nodes: Vec<BehindView> = behind.into_iter().map(|node| shown(node, added_in, now)).collect();
        let reason = match nodes.as_slice() {
            [] => "every node knows the next key; it takes over in a moment".to_owned(),
            [only] => format!("{} does not know the next key yet: {}", only.name, only.reason),
            [first, rest @ ..] => format!(
                "{} and {} more do not know the next key yet: {}",
                first.name,
                rest.len(),
                first.reason
            ),
        };
        views.push(RotationView {
            purpose,
            asked_at: wanted.asked_at.into(),
            asked_by: wanted.asked_by,
            waiting: Waiting {
                reason,
                since: wanted.asked_at.into(),
                verb: match nodes.first() {
                    Some(node) => format!("gpuaas node show {}", node.name),
                    None => "gpuaas trust show".to_owned(),
                },
            },
            nodes,
        });
    }
    Ok(views)
}

fn shown(node: store::Behind, wanted: u64, now: Timestamp) -> BehindView {
    let last_seen_at: Option<Timestamp> = node.last_seen_at.map(Into::into);
    let manifest_version = node.manifest_version.map(|version| version as u64);
    let has = manifest_version.map_or_else(|| "no manifest".to_owned(), |version| format!("manifest {version}"));
    let silent_s = last_seen_at.map_or(0, |at| now.since_ms(at) / 1000);
    let reason = match silent_s {
        60.. => format!("silent for {} min, it has {has} and needs {wanted}", silent_s / 60),
        _ => format!("it has {has} and needs {wanted}"),
    };
    BehindView {
        node_id: node.id.into(),
        name: node.name,
        state: node.state,
        manifest_version,
        last_seen_at,
        reason,
    }
}

fn warnings(keyring: &Keyring, now: Timestamp) -> Vec<TrustWarning> {
    let mut warnings = Vec::new();
    let ends = [
        ("manifest", keyring.manifest().expires_at, "gpuaas trust rotate --now"),
        (
            "delegation",
            keyring.delegation().expires_at,
            "gpuaasd trust delegate --help",
        ),
    ];
    for (what, expires_at, verb) in ends {
        let left_ms = expires_at.since_ms(now);
        if upkeep::threshold(left_ms).is_none() {
            continue;
        }
        let message = match left_ms {
            ..=0 => format!("the {what} is over: nodes run nothing that changes them"),
            _ => format!("the {what} ends in {} days", left_ms / DAY_MS),
        };
        warnings.push(TrustWarning {
            code: Code::ManifestExpired,
            message,
            verb: verb.to_owned(),
        });
    }
    for (purpose, keyid) in keyring.missing() {
        warnings.push(TrustWarning {
            code: Code::SigningKeyMissing,
            message: format!("this replica has no file for the {} key {keyid}", purpose.as_str()),
            verb: "gpuaas explain signing_key_missing".to_owned(),
        });
    }
    for purpose in Purpose::ALL {
        if keyring.manifest().with_status(purpose, KeyStatus::Published).is_none() {
            warnings.push(TrustWarning {
                code: Code::SigningKeyMissing,
                message: format!("no {} key stands by", purpose.as_str()),
                verb: format!("gpuaas trust rotate {} --now", purpose.as_str()),
            });
        }
    }
    warnings
}
