//! The next manifest, decided without I/O: which key signs, which one stands by, which ones are on their way out. It
//! promises that every purpose leaves with one active key and one published standby, and that nothing comes back:
//! `published → active → retiring → retired`, `revoked` from any.

use base::config::Config;
use model::envelope::{CLOCK_TOLERANCE_S, MAX_START_S};
use model::key::{KeyId, SigningKey};
use model::time::Timestamp;
use model::trust::{Alg, KeyStatus, Manifest, ManifestKey, Purpose};

const DAY_S: i64 = 86_400;
const KEY_DAYS: i64 = 365;
/// Retired keys stay listed for a while, so that a late task is told from a forged one.
const LISTED_S: i64 = DAY_S;

/// Times that are days in production and moments in tests.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// An active key is replaced after this long.
    pub key_life_s: i64,
    /// A replaced one is believed for this long.
    pub overlap_s: i64,
    pub manifest_life_s: i64,
    /// A node that was silent for this long is not waited for.
    pub silence_s: i64,
}

impl Terms {
    pub fn from_config(config: &Config) -> Self {
        Self {
            key_life_s: config.signing_key_life_s as i64,
            overlap_s: config.signing_key_overlap_s as i64,
            manifest_life_s: config.manifest_life_s as i64,
            silence_s: config.rotation_silence_s as i64,
        }
    }
}

pub(super) struct Draft {
    pub(super) manifest: Manifest,
    /// Private halves of what is new; on the disk before the manifest is.
    pub(super) fresh: Vec<(Purpose, SigningKey)>,
    /// What happened, for the audit: (verb, purpose, key).
    pub(super) moves: Vec<(&'static str, Purpose, KeyId)>,
    terms: Terms,
    now: Timestamp,
}

impl Draft {
    pub(super) fn after(last: &Manifest, version: u64, now: Timestamp, terms: Terms) -> Self {
        let mut manifest = last.clone();
        (manifest.version, manifest.issued_at) = (version, now);
        manifest.expires_at = now.plus_s(terms.manifest_life_s);
        // A revoked key is named for as long as it could have verified: a node that comes back late must hear of it.
        manifest.keys.retain(|key| match key.status {
            KeyStatus::Retired => now.since_ms(key.since) < LISTED_S * 1000,
            KeyStatus::Revoked => now <= key.not_after,
            KeyStatus::Published | KeyStatus::Active | KeyStatus::Retiring => true,
        });
        Self {
            manifest,
            fresh: Vec::new(),
            moves: Vec::new(),
            terms,
            now,
        }
    }

    /// The first one: an active key and a standby for everything.
    pub(super) fn first(aud: model::id::InstallationId, now: Timestamp, terms: Terms) -> Self {
        let nothing = Manifest {
            aud,
            version: 0,
            issued_at: now,
            expires_at: now,
            keys: Vec::new(),
        };
        let mut draft = Self::after(&nothing, 1, now, terms);
        for purpose in Purpose::ALL {
            draft.add(purpose, KeyStatus::Active);
            draft.add(purpose, KeyStatus::Published);
        }
        draft
    }

    pub(super) fn standby(&self, purpose: Purpose) -> Option<&ManifestKey> {
        self.manifest.with_status(purpose, KeyStatus::Published)
    }

    /// The standby takes over, the active key retires, a new standby is published. Without a standby whose file is
    /// here, a new key takes over at once; nodes learn it with the manifest.
    pub(super) fn activate(&mut self, purpose: Purpose, held: impl Fn(KeyId) -> bool) {
        if let Some(last) = self
            .manifest
            .with_status(purpose, KeyStatus::Active)
            .map(|key| key.keyid)
        {
            self.set(last, KeyStatus::Retiring);
            self.moves.push(("retire", purpose, last));
        }
        match self.standby(purpose).map(|key| key.keyid) {
            Some(standby) if held(standby) => {
                self.set(standby, KeyStatus::Active);
                self.moves.push(("activate", purpose, standby));
            }
            lost => {
                if let Some(lost) = lost {
                    self.set(lost, KeyStatus::Retired);
                }
                self.add(purpose, KeyStatus::Active);
            }
        }
        self.add(purpose, KeyStatus::Published);
    }

    /// A standby whose file is not here can never take over: another one is published.
    pub(super) fn replace_standby(&mut self, purpose: Purpose) {
        if let Some(lost) = self.standby(purpose).map(|key| key.keyid) {
            self.set(lost, KeyStatus::Retired);
        }
        self.add(purpose, KeyStatus::Published);
    }

    /// Ends a key now. Whatever role it had is taken by the next one at once.
    pub(super) fn revoke(&mut self, keyid: KeyId, held: impl Fn(KeyId) -> bool) {
        let Some(key) = self.manifest.key(&keyid).cloned() else {
            return;
        };
        for purpose in &key.purposes {
            match key.status {
                KeyStatus::Active => self.activate(*purpose, &held),
                KeyStatus::Published => self.replace_standby(*purpose),
                KeyStatus::Retiring | KeyStatus::Retired | KeyStatus::Revoked => {}
            }
            self.moves.push(("revoke", *purpose, keyid));
        }
        self.set(keyid, KeyStatus::Revoked);
        // Not cut short like a retiring one's: for so long it stays named.
        if let Some(revoked) = self.manifest.keys.iter_mut().find(|key| key.keyid == keyid) {
            revoked.not_after = key.not_after;
        }
    }

    /// Retiring keys whose time is over and which nothing un-started needs any more.
    pub(super) fn retire(&mut self, over: impl Fn(&ManifestKey) -> bool) {
        let due: Vec<(KeyId, Vec<Purpose>)> = self
            .manifest
            .keys
            .iter()
            .filter(|key| key.status == KeyStatus::Retiring && over(key))
            .map(|key| (key.keyid, key.purposes.clone()))
            .collect();
        for (keyid, purposes) in due {
            self.set(keyid, KeyStatus::Retired);
            self.moves
                .extend(purposes.iter().map(|purpose| ("retired", *purpose, keyid)));
        }
    }

    fn set(&mut self, keyid: KeyId, status: KeyStatus) {
        let (now, overlap_s) = (self.now, self.terms.overlap_s);
        let Some(key) = self.manifest.keys.iter_mut().find(|key| key.keyid == keyid) else {
            return;
        };
        (key.status, key.since) = (status, now);
        if status == KeyStatus::Retiring {
            // Nodes stop believing it by themselves, but not before the last task that it signed could have started.
            let last = overlap_s.max(MAX_START_S + 2 * CLOCK_TOLERANCE_S);
            key.not_after = key.not_after.min(now.plus_s(last));
        }
    }

    fn add(&mut self, purpose: Purpose, status: KeyStatus) {
        let key = SigningKey::generate();
        self.manifest.keys.push(ManifestKey {
            keyid: key.keyid(),
            alg: Alg::Ed25519,
            public: key.public(),
            purposes: vec![purpose],
            not_before: self.now.plus_s(-DAY_S),
            not_after: self.now.plus_s(KEY_DAYS * DAY_S),
            status,
            since: self.now,
            added_in: self.manifest.version,
        });
        self.moves.push(("publish", purpose, key.keyid()));
        self.fresh.push((purpose, key));
    }
}

#[cfg(test)]
mod tests {
    use model::id::InstallationId;

    use super::*;

    const TERMS: Terms = Terms {
        key_life_s: 30 * DAY_S,
        overlap_s: 1200,
        manifest_life_s: 90 * DAY_S,
        silence_s: DAY_S,
    };

    fn at(s: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000).plus_s(s)
    }

    fn next(last: &Manifest, s: i64) -> Draft {
        Draft::after(last, last.version + 1, at(s), TERMS)
    }

    /// One that signs and one that stands by, for every purpose.
    fn sound(manifest: &Manifest) {
        for purpose in Purpose::ALL {
            for status in [KeyStatus::Active, KeyStatus::Published] {
                let keys = manifest.keys.iter();
                let count = keys
                    .filter(|key| key.status == status && key.purposes == [purpose])
                    .count();
                assert_eq!(count, 1, "{purpose:?} {status:?}");
            }
        }
    }

    #[test]
    fn whatever_happens_one_signs_and_one_stands_by() {
        let first = Draft::first(InstallationId::new(), at(0), TERMS).manifest;
        sound(&first);
        let diag = |manifest: &Manifest, status| manifest.with_status(Purpose::Diag, status).expect("a key").keyid;
        let (active, standby) = (diag(&first, KeyStatus::Active), diag(&first, KeyStatus::Published));

        let mut rotated = next(&first, 10);
        rotated.activate(Purpose::Diag, |_| true);
        sound(&rotated.manifest);
        assert_eq!(diag(&rotated.manifest, KeyStatus::Active), standby);
        let old = rotated.manifest.key(&active).expect("listed");
        assert_eq!((old.status, old.not_after), (KeyStatus::Retiring, at(10 + 1200)));
        assert_eq!(rotated.fresh.len(), 1);

        // A standby that nobody holds never takes over.
        let mut lost = next(&first, 10);
        lost.activate(Purpose::Diag, |_| false);
        sound(&lost.manifest);
        assert_ne!(diag(&lost.manifest, KeyStatus::Active), standby);
        assert_eq!(
            lost.manifest.key(&standby).map(|key| key.status),
            Some(KeyStatus::Retired)
        );

        for keyid in [active, standby] {
            let mut revoked = next(&first, 10);
            revoked.revoke(keyid, |_| true);
            sound(&revoked.manifest);
            assert!(revoked.manifest.revokes(&keyid));
        }
    }

    #[test]
    fn retired_keys_are_named_for_a_day_and_revoked_ones_for_their_life() {
        let first = Draft::first(InstallationId::new(), at(0), TERMS).manifest;
        let keys = [Purpose::Diag, Purpose::Oci]
            .map(|purpose| first.with_status(purpose, KeyStatus::Active).expect("a key").keyid);
        let mut draft = next(&first, 10);
        draft.activate(Purpose::Diag, |_| true);
        draft.revoke(keys[1], |_| true);
        draft.retire(|_| true);
        let listed = |manifest: &Manifest| keys.map(|keyid| manifest.key(&keyid).is_some());
        assert_eq!(listed(&next(&draft.manifest, DAY_S).manifest), [true, true]);
        assert_eq!(listed(&next(&draft.manifest, 2 * DAY_S).manifest), [false, true]);
        assert_eq!(listed(&next(&draft.manifest, 366 * DAY_S).manifest), [false, false]);
    }
}
