//! What this node has promised to keep standing, made whole again: after a start of the host the VMs that ran, and at any
//! time the flows and addresses that a restarted switch forgets. It works from what was written down before each VM was
//! first started, and through the same verbs as the phases that made it. It never touches what a task is about, and a
//! guest that switched itself off stays off until the host starts anew. What it cannot mend, the held list says.

mod busy;
mod mend;
mod round;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::id::AllocationId;
use model::signal::Code;
use model::task::Task;

use crate::node::Node;

pub(crate) use busy::Busy;
use round::Round;

/// A switch that was restarted lets guests wait, or do what they like, no longer than this.
const EVERY: Duration = Duration::from_secs(15);

/// Why something could not be made whole, by allocation.
pub(crate) type Troubles = BTreeMap<AllocationId, Code>;

pub(crate) fn run(node: &Node) {
    loop {
        pass(node);
        if node.stop.wait(EVERY) {
            return;
        }
    }
}

fn pass(node: &Node) {
    let take = |allocation| {
        let mine = node.busy.try_take(allocation)?;
        (!has_task(node, allocation)).then_some(mine)
    };
    let round = Round {
        host: &node.options.host,
        boot_id: &node.machine.boot_id,
        take: &take,
        over: &|| node.stop.asked(),
    };
    if let Some(troubles) = round.walk() {
        node.set_troubles(troubles);
    }
}

fn has_task(node: &Node, allocation: AllocationId) -> bool {
    // Without a journal nobody knows what was begun: then nothing is touched.
    let Ok(journal) = node.journal() else { return true };
    journal.book().open().any(|(_, open)| {
        let payload = &open.payload;
        let task = Task::parse(&payload.task_type, payload.type_version, &payload.params);
        task.map_or(true, |task| task.allocation() == Some(allocation))
    })
}

/// Begins it beside everything else.
pub(crate) fn spawn(node: &Arc<Node>) -> std::io::Result<()> {
    let shared = Arc::clone(node);
    node.spawn("upkeep", move || run(&shared))
}

#[cfg(test)]
mod tests;
