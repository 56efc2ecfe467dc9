//! What the loops of one enrolled agent share.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::id::TaskId;
use model::node_api::SessionAnswer;
use model::time::Timestamp;
use tokio::sync::Notify;

use crate::api::Api;
use crate::clock::Clock;
use crate::executor::Executor;
use crate::identity::Slots;
use crate::pace::Pace;

pub(crate) struct Node {
    pub(crate) api: Api,
    pub(crate) executor: Executor,
    pub(crate) slots: Arc<Slots>,
    pub(crate) clock: Clock,
    pub(crate) pace: Pace,
    pub(crate) started_at: Timestamp,
    pub(crate) image_ca_file: Option<PathBuf>,
    pub(crate) state_dir: PathBuf,
    /// A dial failed: look at our own hops soon.
    pub(crate) probe_wanted: Notify,
    /// Our certificate was refused: see whether a new one helps.
    pub(crate) renewal_wanted: Notify,
    /// Health probes that were offered; their results are preceded by a fresh self-probe.
    health_probes: Mutex<HashSet<TaskId>>,
    /// The last heartbeat that arrived had nothing to tell.
    told_all_clear: AtomicBool,
    heartbeat_s: AtomicU32,
    self_probe_s: AtomicU32,
    /// Polls of this run that were answered, and that were not.
    polls: AtomicU64,
    polls_failed: AtomicU64,
}

impl Node {
    pub(crate) fn new(
        api: Api,
        executor: Executor,
        slots: Arc<Slots>,
        clock: Clock,
        pace: Pace,
        started_at: Timestamp,
        image_ca_file: Option<PathBuf>,
    ) -> Self {
        let state_dir = slots.dir().to_owned();
        Self {
            api,
            executor,
            slots,
            clock,
            pace,
            started_at,
            image_ca_file,
            state_dir,
            probe_wanted: Notify::new(),
            renewal_wanted: Notify::new(),
            health_probes: Mutex::default(),
            told_all_clear: AtomicBool::new(false),
            heartbeat_s: AtomicU32::new(10),
            self_probe_s: AtomicU32::new(60),
            polls: AtomicU64::new(0),
            polls_failed: AtomicU64::new(0),
        }
    }

    pub(crate) fn note_poll(&self, answered: bool) {
        let count = if answered { &self.polls } else { &self.polls_failed };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// How many polls were answered so far, and how many were not.
    pub(crate) fn polls(&self) -> (u64, u64) {
        (
            self.polls.load(Ordering::Relaxed),
            self.polls_failed.load(Ordering::Relaxed),
        )
    }

    /// The control plane sets the rhythm, within reason.
    pub(crate) fn keep_time(&self, answer: &SessionAnswer) {
        self.heartbeat_s
            .store(answer.heartbeat_s.clamp(1, 60), Ordering::Relaxed);
        let self_probe_s = answer.self_probe_s.clamp(1, 3600);
        if self.self_probe_s.swap(self_probe_s, Ordering::Relaxed) != self_probe_s {
            // Whoever waits for the next one waits by the old rhythm.
            self.probe_wanted.notify_one();
        }
    }

    pub(crate) fn told_all_clear(&self) -> bool {
        self.told_all_clear.load(Ordering::Relaxed)
    }

    pub(crate) fn set_told_all_clear(&self, told: bool) {
        self.told_all_clear.store(told, Ordering::Relaxed);
    }

    pub(crate) fn heartbeat(&self) -> Duration {
        Duration::from_secs(self.heartbeat_s.load(Ordering::Relaxed).into())
    }

    pub(crate) fn self_probe(&self) -> Duration {
        Duration::from_secs(self.self_probe_s.load(Ordering::Relaxed).into())
    }

    pub(crate) fn note_health_probe(&self, task_id: TaskId) {
        self.health_probes().insert(task_id);
    }

    pub(crate) fn take_health_probe(&self, task_id: TaskId) -> bool {
        self.health_probes().remove(&task_id)
    }

    fn health_probes(&self) -> MutexGuard<'_, HashSet<TaskId>> {
        self.health_probes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
