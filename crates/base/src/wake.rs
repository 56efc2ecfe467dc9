//! Wake-ups: "look again", never "here it is". Raising a topic wakes this process at once and every other one through
//! a coalesced NOTIFY, at most one each five milliseconds on a connection of its own. Where it is known for which node
//! there is something, only that one is named, so that nobody has to look for it among all. A lost notification costs
//! latency only, because every subscriber also sweeps.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use model::id::NodeId;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

mod carry;
pub use carry::{listen, send};

/// What there may be to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// There may be tasks for any node: whoever hands them out looks at all. For a single one, see `Wake::call`.
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
    /// A workflow was begun, or somebody wants one stopped or tried again, or a task has ended that one may wait for.
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
    /// Nodes that other processes have not been told of yet.
    called: Mutex<BTreeSet<NodeId>>,
    unsent: Notify,
    bells: [watch::Sender<u64>; Topic::ALL.len()],
    criers: RwLock<Vec<Crier>>,
}

/// Who hears the names of nodes in this process.
struct Crier(Box<dyn Fn(NodeId) + Send + Sync>);

impl std::fmt::Debug for Crier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Crier")
    }
}

/// More names than this would be too much for a NOTIFY, and looking at all of them costs no more.
const CALLED_MOST: usize = 128;

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
                called: Mutex::default(),
                criers: RwLock::default(),
                unsent: Notify::new(),
                bells: std::array::from_fn(|_| watch::Sender::new(0)),
            }),
        }
    }

    /// Call after the commit, never before.
    pub fn raise(&self, topic: Topic) {
        self.tell(&[], &[topic]);
    }

    /// There is something for this node. Call after the commit, never before.
    pub fn call(&self, node: NodeId) {
        self.tell(&[node], &[]);
    }

    /// All of it at once, so that other processes hear of it in one word: first those who have something to do, then those
    /// who watch.
    pub(crate) fn tell(&self, nodes: &[NodeId], topics: &[Topic]) {
        nodes.iter().for_each(|node| self.cry(*node));
        let mut called = self.called();
        called.extend(nodes);
        if called.len() > CALLED_MOST {
            called.clear();
            self.mark(Topic::Tasks);
        }
        drop(called);
        for topic in topics {
            self.ring(*topic);
            self.mark(*topic);
        }
        self.inner.unsent.notify_one();
    }

    /// From now on `hear` is told of every node that is called, here or elsewhere. It must not call anybody itself.
    pub fn on_call(&self, hear: impl Fn(NodeId) + Send + Sync + 'static) {
        let mut criers = self.inner.criers.write().unwrap_or_else(PoisonError::into_inner);
        criers.push(Crier(Box::new(hear)));
    }

    fn cry(&self, node: NodeId) {
        let criers = self.inner.criers.read().unwrap_or_else(PoisonError::into_inner);
        criers.iter().for_each(|Crier(hear)| hear(node));
    }

    fn called(&self) -> MutexGuard<'_, BTreeSet<NodeId>> {
        self.inner.called.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be told to other processes.
    fn mark(&self, topic: Topic) {
        self.inner.dirty[topic as usize].store(true, Ordering::SeqCst);
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

    /// Takes what has to be told to other processes.
    fn take_unsent(&self) -> Unsent {
        let mut topics = Topic::ALL.to_vec();
        topics.retain(|topic| self.inner.dirty[*topic as usize].swap(false, Ordering::SeqCst));
        let nodes = std::mem::take(&mut *self.called());
        Unsent { topics, nodes }
    }

    /// It was not told. Others need not have the names, if they look at everything instead.
    fn give_back(&self, unsent: &Unsent) {
        unsent.topics.iter().for_each(|topic| self.mark(*topic));
        if !unsent.nodes.is_empty() {
            self.mark(Topic::Tasks);
        }
        self.inner.unsent.notify_one();
    }

    /// Word for word what another process has said.
    fn hear(&self, word: &str) {
        match word.strip_prefix(NODE) {
            Some(id) => id.parse().into_iter().for_each(|id: Uuid| self.cry(id.into())),
            None => Topic::parse(word).into_iter().for_each(|topic| self.ring(topic)),
        }
    }
}

/// What one process has to tell the others.
#[derive(Debug)]
struct Unsent {
    topics: Vec<Topic>,
    nodes: BTreeSet<NodeId>,
}

/// Before a node's number, in words between processes.
const NODE: &str = "node:";

impl Unsent {
    fn is_empty(&self) -> bool {
        self.topics.is_empty() && self.nodes.is_empty()
    }

    fn words(&self) -> Vec<String> {
        let topics = self.topics.iter().map(|topic| topic.as_str().to_owned());
        let nodes = self.nodes.iter().map(|node| format!("{NODE}{}", node.uuid().simple()));
        topics.chain(nodes).collect()
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
        assert_eq!(wake.take_unsent().topics, [Topic::Tasks, Topic::Trust]);
        assert!(wake.take_unsent().is_empty());
    }

    #[test]
    fn a_call_is_heard_here_at_once_and_elsewhere_by_name() {
        let (here, there) = (Wake::new(), Wake::new());
        let heard = Arc::new(Mutex::new(Vec::new()));
        for wake in [&here, &there] {
            let heard = heard.clone();
            wake.on_call(move |node| heard.lock().expect("whole").push(node));
        }
        let (one, other) = (NodeId::new(), NodeId::new());
        here.call(one);
        here.call(other);
        here.call(one);
        assert_eq!(*heard.lock().expect("whole"), [one, other, one]);
        let unsent = here.take_unsent();
        unsent.words().iter().for_each(|word| there.hear(word));
        let mut both = [one, other];
        both.sort();
        assert_eq!(heard.lock().expect("whole")[3..], both);
        assert!(there.take_unsent().is_empty(), "what was heard is not said again");
    }

    #[test]
    fn names_that_are_too_many_or_were_not_told_become_a_look_at_everything() {
        let wake = Wake::new();
        (0..=CALLED_MOST).for_each(|_| wake.call(NodeId::new()));
        let unsent = wake.take_unsent();
        assert_eq!((unsent.topics, unsent.nodes.len()), (vec![Topic::Tasks], 0));
        (0..CALLED_MOST).for_each(|_| wake.call(NodeId::new()));
        let unsent = wake.take_unsent();
        // What a NOTIFY can carry is 8,000 bytes.
        assert_eq!(unsent.topics, []);
        assert!(unsent.words().join(" ").len() < 7_000);
        wake.give_back(&unsent);
        assert_eq!(wake.take_unsent().topics, [Topic::Tasks]);
    }
}
