//! Wake-ups: "look again", never "here it is". Raising a topic wakes this process at once and every other one through
//! a coalesced NOTIFY, at most one each five milliseconds on a connection of its own. A lost notification costs
//! latency only, because every subscriber also sweeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use uuid::Uuid;

mod carry;
pub use carry::{listen, send};

/// What there may be to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Tasks were queued or cancelled: whoever hands them out looks.
    Tasks,
    /// A task moved or ended: whoever watches one looks.
    Progress,
    /// Events were written and want their sequence number.
    Outbox,
    /// Events have their sequence number and can be read.
    Events,
    /// An identity was revoked or changed.
    Revoked,
    /// The signing-key manifest changed.
    Trust,
    /// A workflow was begun, or somebody wants one stopped or tried again.
    Workflows,
}

impl Topic {
    pub const ALL: [Topic; 7] = [
        Topic::Tasks,
        Topic::Progress,
        Topic::Outbox,
        Topic::Events,
        Topic::Revoked,
        Topic::Trust,
        Topic::Workflows,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Topic::Tasks => "tasks",
            Topic::Progress => "progress",
            Topic::Outbox => "outbox",
            Topic::Events => "events",
            Topic::Revoked => "revoked",
            Topic::Trust => "trust",
            Topic::Workflows => "workflows",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.as_str() == word)
    }
}

/// The process's own bell. Clones ring the same one.
#[derive(Clone, Debug)]
pub struct Wake {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Tells our own notifications from those of other processes.
    process: Uuid,
    dirty: [AtomicBool; Topic::ALL.len()],
    unsent: Notify,
    bells: [watch::Sender<u64>; Topic::ALL.len()],
}

impl Default for Wake {
    fn default() -> Self {
        Self::new()
    }
}

impl Wake {
    pub fn new() -> Self {
        Self {
            inner: Arc::new(Inner {
                process: Uuid::new_v4(),
                dirty: Default::default(),
                unsent: Notify::new(),
                bells: std::array::from_fn(|_| watch::Sender::new(0)),
            }),
        }
    }

    /// Call after the commit, never before.
    pub fn raise(&self, topic: Topic) {
        self.ring(topic);
        self.inner.dirty[topic as usize].store(true, Ordering::SeqCst);
        self.inner.unsent.notify_one();
    }

    /// Wakes this process only: another process already said so, or the listener lost its connection for a while.
    fn ring(&self, topic: Topic) {
        self.inner.bells[topic as usize].send_modify(|count| *count = count.wrapping_add(1));
    }

    pub fn subscribe(&self, topic: Topic) -> Subscriber {
        Subscriber {
            bell: self.inner.bells[topic as usize].subscribe(),
        }
    }

    /// Takes the topics that have to be told to other processes.
    fn take_dirty(&self) -> Vec<Topic> {
        let mut dirty = Topic::ALL.to_vec();
        dirty.retain(|topic| self.inner.dirty[*topic as usize].swap(false, Ordering::SeqCst));
        dirty
    }
}

/// One who waits for a topic. A ring that came while nobody waited is not lost: the next wait returns at once.
#[derive(Debug)]
pub struct Subscriber {
    bell: watch::Receiver<u64>,
}

impl Subscriber {
    /// Returns when the topic was raised, or after `sweep` without a ring. Subscribe first, look second.
    pub async fn look_again(&mut self, sweep: Duration) {
        // The sender lives as long as any clone of the bell; should it be gone, the sweep is what is left.
        if let Ok(Err(_)) = tokio::time::timeout(sweep, self.bell.changed()).await {
            tokio::time::sleep(sweep).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_ring_before_the_wait_is_not_lost() {
        let wake = Wake::new();
        let mut tasks = wake.subscribe(Topic::Tasks);
        wake.raise(Topic::Tasks);
        wake.raise(Topic::Tasks);
        let hour = Duration::from_secs(3600);
        tokio::time::timeout(Duration::from_secs(5), tasks.look_again(hour))
            .await
            .expect("rung already");
        // Two rings are one "look again".
        assert!(
            tokio::time::timeout(Duration::from_millis(5), tasks.look_again(hour))
                .await
                .is_err()
        );
    }

    #[test]
    fn raised_topics_are_sent_once() {
        let wake = Wake::new();
        wake.raise(Topic::Trust);
        wake.raise(Topic::Tasks);
        wake.raise(Topic::Tasks);
        assert_eq!(wake.take_dirty(), [Topic::Tasks, Topic::Trust]);
        assert!(wake.take_dirty().is_empty());
    }
}
