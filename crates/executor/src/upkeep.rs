//! What this node has promised to keep standing, made whole again: after a start of the host the VMs that ran, and at any
//! time the flows and addresses that a restarted switch forgets. It works from what was written down before each VM was
//! first started, and through the same verbs as the phases that made it. It never touches what a task is about, and a
//! guest that switched itself off stays off until the host starts anew. What it cannot mend, the held list says.

mod busy;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use host::{Error, Host, Kept};
use model::id::AllocationId;
use model::signal::Code;
use model::task::Task;
use model::task::vm_power::Power;

use crate::node::Node;

pub(crate) use busy::Busy;

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
    let host = &node.options.host;
    let kept = match host.slices.kept() {
        Ok(kept) => kept,
        Err(error) => {
            tracing::error!(%error, "what should stand here cannot be read");
            return;
        }
    };
    let mut troubles = Troubles::new();
    for Kept { machine, .. } in kept {
        let allocation = machine.allocation;
        if node.stop.asked() {
            return;
        }
        // From here on a task of this allocation waits; one that was taken before decides alone.
        let Some(_mine) = node.busy.try_take(allocation) else {
            continue;
        };
        if has_task(node, allocation) {
            continue;
        }
        if let Err(error) = restore(host, allocation, &node.machine.boot_id) {
            tracing::error!(%allocation, code = %error.code(), %error, "a VM could not be made whole");
            troubles.insert(allocation, error.code());
        }
    }
    node.set_troubles(troubles);
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

/// Port first, then devices, then the VM; each as its phase would. Written down anew only when it stands.
fn restore(host: &Host, allocation: AllocationId, boot_id: &str) -> host::Result<()> {
    // Looked up once more: a release may have ended since.
    let mut all = host.slices.kept()?.into_iter();
    let Some(kept) = all.find(|kept| kept.machine.allocation == allocation) else {
        return Ok(());
    };
    for slot in &kept.slots {
        match host.leases.holder(*slot)? {
            Some(owner) if owner.allocation == allocation => {}
            Some(_) | None => return Err(not_ours(&kept)),
        }
    }
    if !host.network.is_whole(&kept.port)? {
        tracing::warn!(vm = %kept.machine.name, "its port is made again");
        host.network.ensure_port(&kept.port)?;
    }
    if kept.boot_id == boot_id {
        return Ok(());
    }
    if kept.power == Power::Running {
        for device in kept.machine.parts.iter().flat_map(|part| &part.devices) {
            if let Some(holder) = host.machines.holder_of_device(*device)?
                && holder != kept.machine.name.as_str()
            {
                return Err(not_ours(&kept));
            }
            host.devices.ensure_vfio_bound(*device)?;
        }
        tracing::warn!(vm = %kept.machine.name, "the host was started anew, and so is the VM");
        host.machines.ensure_running(&kept.machine)?;
    }
    host.slices.ensure_started_in(&kept.slice(), boot_id)
}

fn not_ours(kept: &Kept) -> Error {
    Error::Slice {
        code: Code::SlotLeased,
        subject: kept.machine.name.to_string(),
        why: "its slots are not leased to it any more".to_owned(),
    }
}

/// Begins it beside everything else.
pub(crate) fn spawn(node: &Arc<Node>) -> std::io::Result<()> {
    let shared = Arc::clone(node);
    node.spawn("upkeep", move || run(&shared))
}

#[cfg(test)]
mod tests;
