//! Held long-polls and who is to look. A node that waits costs no query: one loop per process asks which nodes have
//! work, on a wake-up or every few seconds, and rings only those. Enter first, look second, so that nothing that is
//! queued in between is missed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::id::NodeId;
use tokio::sync::Notify;

use crate::metrics::NODES_HELD;

#[derive(Default)]
pub struct Dispatch {
    board: Arc<Mutex<Board>>,
}

struct Board {
    held: HashMap<NodeId, Held>,
    /// Waits that are held, counted as they come and go.
    count: metrics::Gauge,
    /// Nodes with something to hand out, as of the last look.
    work: HashSet<NodeId>,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            held: HashMap::new(),
            count: metrics::gauge!(NODES_HELD),
            work: HashSet::new(),
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

    /// The outcome of a look at the database.
    pub fn set_work(&self, nodes: HashSet<NodeId>) {
        let mut board = lock(&self.board);
        for node in &nodes {
            if let Some(held) = board.held.get(node) {
                held.bell.notify_waiters();
            }
        }
        board.work = nodes;
    }

    /// Something about this node changed; whoever waits for it looks again.
    pub fn ring(&self, node: NodeId) {
        let mut board = lock(&self.board);
        board.work.insert(node);
        if let Some(held) = board.held.get(&node) {
            held.bell.notify_waiters();
        }
    }

    /// Whoever waits for this node asks again whether it may.
    pub fn nudge(&self, node: NodeId) {
        if let Some(held) = lock(&self.board).held.get(&node) {
            held.bell.notify_waiters();
        }
    }

    /// Everybody looks again: there is a new manifest.
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

    /// Was there work at the last look? Asking takes it: the caller will claim.
    pub fn take_work(&self) -> bool {
        lock(&self.board).work.remove(&self.node)
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
