//! Held long-polls and who is to look. A node that waits costs no query: whoever queues something calls its node by
//! name, and one loop per process asks every few seconds which nodes have work, for what was not heard, and rings only
//! those. Enter first, look second, so that nothing that is queued in between is missed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::id::NodeId;
use tokio::sync::Notify;

use crate::metrics::NODES_HELD;

#[derive(Clone, Default)]
pub struct Dispatch {
    board: Arc<Mutex<Board>>,
}

struct Board {
    held: HashMap<NodeId, Held>,
    /// Waits that are held, counted as they come and go.
    count: metrics::Gauge,
    /// Nodes with something to hand out: as of the last look, and those that were called since it began.
    work: HashSet<NodeId>,
    called: HashSet<NodeId>,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            held: HashMap::new(),
            count: metrics::gauge!(NODES_HELD),
            work: HashSet::new(),
            called: HashSet::new(),
        }
    }
}

impl Board {
    fn call(&mut self, node: NodeId) {
        self.work.insert(node);
        self.called.insert(node);
        if let Some(held) = self.held.get(&node) {
            held.bell.notify_waiters();
        }
    }
}

struct Held {
    bell: Arc<Notify>,
    waits: usize,
}

/// One held wait. Dropping it leaves.
pub struct Wait {
    board: Arc<Mutex<Board>>,
    node: NodeId,
    bell: Arc<Notify>,
}

impl Dispatch {
    pub fn enter(&self, node: NodeId) -> Wait {
        let mut board = lock(&self.board);
        let held = board.held.entry(node).or_insert_with(|| Held {
            bell: Arc::new(Notify::new()),
            waits: 0,
        });
        held.waits += 1;
        let bell = held.bell.clone();
        board.count.increment(1.0);
        Wait {
            board: self.board.clone(),
            node,
            bell,
        }
    }

    /// Before a look at the database: whoever is called from here on may not be in what it finds.
    pub fn begin_look(&self) {
        lock(&self.board).called.clear();
    }

    /// The outcome of the look.
    pub fn set_work(&self, mut nodes: HashSet<NodeId>) {
        let mut board = lock(&self.board);
        for node in &nodes {
            if let Some(held) = board.held.get(node) {
                held.bell.notify_waiters();
            }
        }
        nodes.extend(board.called.drain());
        board.work = nodes;
    }

    /// Something about this node changed; whoever waits for it looks again.
    pub fn ring(&self, node: NodeId) {
        lock(&self.board).call(node);
    }

    /// Whoever waits for this node asks again whether it may.
    pub fn nudge(&self, node: NodeId) {
        if let Some(held) = lock(&self.board).held.get(&node) {
            held.bell.notify_waiters();
        }
    }

    /// Everybody looks again: there is a new manifest, or this process stops.
    pub fn ring_all(&self) {
        for held in lock(&self.board).held.values() {
            held.bell.notify_waiters();
        }
    }

    pub fn held(&self) -> usize {
        lock(&self.board).held.len()
    }
}

impl Wait {
    /// Arm it before looking; a ring from then on is not lost.
    pub fn rung(&self) -> tokio::sync::futures::Notified<'_> {
        self.bell.notified()
    }

    /// Is there work, as far as is known? Asking takes that knowledge: the caller claims, and gives it back if it could not.
    pub fn take_work(&self) -> Option<Taken<'_>> {
        let mut board = lock(&self.board);
        // What a look that is under way finds may be what is claimed now; then one claim finds nothing.
        board.called.remove(&self.node);
        let known = board.work.remove(&self.node);
        drop(board);
        // Made only if there is something to give back.
        known.then(|| Taken(Some(self)))
    }
}

/// That there is work for a node. Dropped before it was claimed (the request is gone, or the database is), it is known
/// again, and whoever else waits for this node looks.
pub struct Taken<'a>(Option<&'a Wait>);

impl Taken<'_> {
    pub fn claimed(mut self) {
        self.0 = None;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(wait) = self.0 {
            lock(&wait.board).call(wait.node);
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut board = lock(&self.board);
        board.count.decrement(1.0);
        if let Some(held) = board.held.get_mut(&self.node) {
            held.waits -= 1;
            if held.waits == 0 {
                board.held.remove(&self.node);
            }
        }
    }
}

fn lock(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_called_during_a_look_is_not_forgotten_by_it() {
        let (dispatch, node) = (Dispatch::default(), NodeId::new());
        dispatch.ring(node);
        let wait = dispatch.enter(node);
        wait.take_work().expect("called before it waited").claimed();
        dispatch.begin_look();
        dispatch.ring(node);
        // The look began before the call, so it has not found the node.
        dispatch.set_work(HashSet::new());
        wait.take_work().expect("not forgotten").claimed();
        dispatch.begin_look();
        dispatch.set_work(HashSet::new());
        assert!(
            wait.take_work().is_none(),
            "it was served, and nobody has called it since"
        );
    }

    #[tokio::test]
    async fn what_was_taken_and_not_claimed_is_known_again() {
        let (dispatch, node) = (Dispatch::default(), NodeId::new());
        let (wait, another) = (dispatch.enter(node), dispatch.enter(node));
        dispatch.ring(node);
        let rung = another.rung();
        let mut rung = std::pin::pin!(rung);
        rung.as_mut().enable();
        drop(wait.take_work().expect("called"));
        rung.await;
        another.take_work().expect("given back").claimed();
        assert!(wait.take_work().is_none());
    }
}
