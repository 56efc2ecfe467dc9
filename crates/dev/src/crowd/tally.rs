//! What a crowd counts. Members only add; whoever asks gets all figures of one moment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent::api::CallError;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub members: u64,
    /// Members with a wait under way, as far as they know: the server may not have it yet.
    pub waiting: u64,
    pub sessions: u64,
    pub answered: u64,
    pub self_probes: u64,
    pub heartbeats: u64,
    pub results: u64,
    /// Members that another session has turned away. They have left.
    pub superseded: u64,
    /// The newest manifest that anybody was told of, by how many, and when the last of them heard of it.
    pub manifest: u64,
    pub manifest_known_by: u64,
    pub manifest_last_at: Option<Timestamp>,
    /// Calls that failed, by the agent's own word.
    pub failures: BTreeMap<String, u64>,
}

#[derive(Default)]
pub(super) struct Tally {
    pub(super) members: AtomicU64,
    pub(super) waiting: AtomicU64,
    pub(super) sessions: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) self_probes: AtomicU64,
    pub(super) heartbeats: AtomicU64,
    pub(super) results: AtomicU64,
    pub(super) superseded: AtomicU64,
    rare: Mutex<Rare>,
}

#[derive(Default)]
struct Rare {
    manifest: u64,
    known_by: u64,
    last_at: Option<Timestamp>,
    failures: BTreeMap<String, u64>,
}

pub(super) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Tally {
    /// A member has heard of a manifest for the first time.
    pub(super) fn news(&self, manifest: u64, at: Timestamp) {
        let mut rare = self.rare();
        if manifest > rare.manifest {
            (rare.manifest, rare.known_by) = (manifest, 0);
        }
        if manifest == rare.manifest {
            rare.known_by += 1;
            rare.last_at = rare.last_at.max(Some(at));
        }
    }

    pub(super) fn failed(&self, error: &CallError) {
        *self.rare().failures.entry(error.word()).or_default() += 1;
    }

    pub(super) fn stats(&self) -> Stats {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let rare = self.rare();
        Stats {
            members: now(&self.members),
            waiting: now(&self.waiting),
            sessions: now(&self.sessions),
            answered: now(&self.answered),
            self_probes: now(&self.self_probes),
            heartbeats: now(&self.heartbeats),
            results: now(&self.results),
            superseded: now(&self.superseded),
            manifest: rare.manifest,
            manifest_known_by: rare.known_by,
            manifest_last_at: rare.last_at,
            failures: rare.failures.clone(),
        }
    }

    fn rare(&self) -> MutexGuard<'_, Rare> {
        self.rare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
