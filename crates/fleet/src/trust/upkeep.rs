//! What nobody should have to remember: rotations that are due or were waiting, keys whose time is over, a manifest
//! that is signed anew long before its end, and the warnings when a person is needed. Safe to run in every replica:
//! whoever gets the turn looks again before it acts.

use base::http::Answer;
use base::tx::Actor;
use model::envelope::CLOCK_TOLERANCE_S;
use model::key::KeyId;
use model::signal::Code;
use model::time::Timestamp;
use model::trust::{KeyStatus, Manifest, Purpose};
use serde_json::json;

use super::draft::Terms;
use super::edition::Edition;
use super::{files, rotate, store};
use crate::Fleet;
use crate::metrics::{ALARMS, DELEGATION_LEFT, MANIFEST_LEFT};

const DAY_MS: i64 = 86_400_000;
/// Days before an end at which somebody is told, again and louder.
const ALARM_DAYS: [i64; 4] = [30, 14, 7, 0];

/// One pass.
pub async fn upkeep(fleet: &Fleet) -> Answer<()> {
    let due = Due::find(fleet).await?;
    if due.is_empty() {
        return Ok(());
    }
    let actor = Actor::system("trust-loop");
    let mut edition = Edition::open(fleet, &actor, "trust.upkeep").await?;
    let (now, terms) = (edition.change.at(), fleet.terms);
    let mut wants: Vec<Purpose> = store::wanted(edition.change.conn())
        .await?
        .iter()
        .filter_map(store::Wanted::purpose)
        .collect();
    let old = aged(&edition.draft.manifest, now, terms);
    for purpose in old.iter().filter(|purpose| !wants.contains(purpose)) {
        store::want(&mut edition.change, *purpose).await?;
    }
    let more: Vec<Purpose> = old.into_iter().filter(|purpose| !wants.contains(purpose)).collect();
    wants.extend(more);
    for purpose in wants {
        rotate::advance(fleet, &mut edition, purpose, false).await?;
    }
    let over = over(fleet, &mut edition, now).await?;
    edition.draft.retire(|key| over.contains(&key.keyid));
    let aging = past_two_thirds(edition.keyring.manifest(), now);
    if edition.draft.moves.is_empty() && !aging {
        // Another replica was faster, or nodes are still behind. That a rotation is due is kept without a word.
        return match due.aged {
            true => Ok(edition.change.commit().await?),
            false => Ok(edition.change.rollback().await?),
        };
    }
    edition.publish(fleet, json!({ "renewed": aging })).await
}

/// What a look without a lock finds.
struct Due {
    ready: bool,
    aged: bool,
    retire: bool,
    aging: bool,
}

impl Due {
    async fn find(fleet: &Fleet) -> Answer<Self> {
        let (keyring, now, terms) = (fleet.keyring(), fleet.app.clock.now(), fleet.terms);
        let manifest = keyring.manifest();
        let mut conn = fleet.app.db.read().acquire().await?;
        let wanted: Vec<Purpose> = store::wanted(&mut conn)
            .await?
            .iter()
            .filter_map(store::Wanted::purpose)
            .collect();
        let mut ready = false;
        for purpose in &wanted {
            let Some(standby) = manifest.with_status(*purpose, KeyStatus::Published) else {
                continue;
            };
            let heard_after = now.plus_s(-terms.silence_s);
            ready |= store::behind(&mut conn, standby.added_in, heard_after, 1)
                .await?
                .is_empty();
        }
        let aged = aged(manifest, now, terms)
            .iter()
            .any(|purpose| !wanted.contains(purpose));
        let retire = retiring(manifest, now, terms);
        let needed = match retire.is_empty() {
            true => Vec::new(),
            false => store::needed(&mut conn, &retire, now.plus_s(-CLOCK_TOLERANCE_S)).await?,
        };
        Ok(Self {
            ready,
            aged,
            retire: retire.iter().any(|keyid| !needed.contains(&keyid.to_string())),
            aging: past_two_thirds(manifest, now),
        })
    }

    fn is_empty(&self) -> bool {
        !(self.ready || self.aged || self.retire || self.aging)
    }
}

/// Purposes whose key has signed for long enough.
fn aged(manifest: &Manifest, now: Timestamp, terms: Terms) -> Vec<Purpose> {
    let old = |purpose: &Purpose| {
        let active = manifest.with_status(*purpose, KeyStatus::Active);
        active.is_some_and(|key| now.since_ms(key.since) > terms.key_life_s * 1000)
    };
    Purpose::ALL.into_iter().filter(old).collect()
}

/// Keys that were replaced longer ago than they are believed.
fn retiring(manifest: &Manifest, now: Timestamp, terms: Terms) -> Vec<KeyId> {
    let over = |since: Timestamp| now.since_ms(since) > terms.overlap_s * 1000;
    let keys = manifest.keys.iter();
    keys.filter(|key| key.status == KeyStatus::Retiring && over(key.since))
        .map(|key| key.keyid)
        .collect()
}

/// Those of them that nothing un-started needs.
async fn over(fleet: &Fleet, edition: &mut Edition, now: Timestamp) -> Answer<Vec<KeyId>> {
    let mut keys = retiring(&edition.draft.manifest, now, fleet.terms);
    if keys.is_empty() {
        return Ok(keys);
    }
    let needed = store::needed(edition.change.conn(), &keys, now.plus_s(-CLOCK_TOLERANCE_S)).await?;
    keys.retain(|keyid| !needed.contains(&keyid.to_string()));
    Ok(keys)
}

fn past_two_thirds(manifest: &Manifest, now: Timestamp) -> bool {
    let life_ms = manifest.expires_at.since_ms(manifest.issued_at);
    now.since_ms(manifest.issued_at) > life_ms / 3 * 2
}

/// How loudly the ends that come near have been told of.
#[derive(Default)]
pub(crate) struct Told {
    manifest: Option<i64>,
    delegation: Option<i64>,
}

/// Sets the gauges, and tells of each threshold once.
pub(crate) fn watch_ends(fleet: &Fleet, told: &mut Told) {
    let (keyring, now) = (fleet.keyring(), fleet.app.clock.now());
    let ends = [
        (
            MANIFEST_LEFT,
            "manifest",
            keyring.manifest().expires_at,
            &mut told.manifest,
        ),
        (
            DELEGATION_LEFT,
            "delegation",
            keyring.delegation().expires_at,
            &mut told.delegation,
        ),
    ];
    for (gauge, what, expires_at, told) in ends {
        let left_ms = expires_at.since_ms(now);
        metrics::gauge!(gauge).set(left_ms as f64 / 1000.0);
        let reached = threshold(left_ms);
        if reached.is_some() && reached != *told {
            metrics::counter!(ALARMS, "code" => Code::ManifestExpired.as_str()).increment(1);
            tracing::error!(what, %expires_at, days_left = left_ms.div_euclid(DAY_MS), code = %Code::ManifestExpired, "trust comes to its end");
        }
        *told = reached;
    }
}

/// The nearest of the thresholds that has been reached.
pub(super) fn threshold(left_ms: i64) -> Option<i64> {
    let reached = ALARM_DAYS.into_iter().filter(|days| left_ms <= days * DAY_MS);
    reached.min()
}

/// Takes away the files of keys that are over.
pub(crate) fn sweep_files(fleet: &Fleet) {
    let keyring = fleet.keyring();
    match files::sweep(&fleet.app.config.keys_dir, keyring.manifest(), fleet.app.clock.now()) {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "key files of keys that are over were removed"),
        Err(error) => tracing::warn!(%error, "the key directory was not swept"),
    }
}
