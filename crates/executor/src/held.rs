//! What this node holds, looked up on the host each time it is asked and signed with the result key. It is no task's
//! word: leases, VMs and accounts are read where they are, so a VM that nobody remembers is in it, and one that is gone
//! is not. Looking may take as long as what runs VMs takes to answer, so it has a thread of its own, one at a time.

mod numbers;

use std::collections::BTreeMap;
use std::sync::Arc;

use host::{Host, Kept, Owner, Seen};
use model::envelope::Refusal;
use model::held::{HeldPayload, HeldPower, HeldSlice, HeldUser, Holdings};
use model::id::{AllocationId, SlotId};
use model::signal::Code;
use model::socket::FromExecutor;
use model::task::vm_power::Power;
use model::value::Name;

use crate::node::Node;

pub(crate) use numbers::Numbers;

/// Answers when it has looked; at once, and with a refusal, if another look is under way.
pub(crate) fn answer(node: &Arc<Node>, request_id: u64) {
    let shared = Arc::clone(node);
    let spawned = node.spawn("held", move || {
        let reply = match signed(&shared) {
            Ok(envelope) => FromExecutor::Held { request_id, envelope },
            Err(Refusal { code, detail }) => FromExecutor::Failed {
                request_id,
                code,
                detail,
            },
        };
        shared.outlet.send(reply);
    });
    if let Err(error) = spawned {
        node.give_up(anyhow::Error::new(error).context("start a thread"));
    }
}

fn signed(node: &Node) -> Result<model::dsse::Envelope, Refusal> {
    let Some(mut numbers) = node.numbers() else {
        return Err(refusal(Code::NodeBusy, "another look is under way"));
    };
    let identity = node.trust().identity();
    let identity = identity.ok_or_else(|| refusal(Code::NotEnrolled, "this node has no identity yet"))?;
    // Before the look: whatever happens on the host meanwhile, a later list has a later number.
    let number = numbers.next(&node.options.state_dir);
    let number = number.map_err(|error| refusal(Code::DiskFull, &format!("no number for the list: {error}")))?;
    let at = node.options.clock.now();
    let mut holds = look(&node.options.host).map_err(|error| refusal(error.code(), &error.to_string()))?;
    for slice in &mut holds.slices {
        slice.trouble = node.trouble_with(slice.allocation_id).map(|code| code.to_string());
    }
    let list = HeldPayload {
        aud: identity.installation,
        node_id: identity.node_id,
        node_epoch: identity.epoch,
        number,
        at,
        boot_id: node.machine.boot_id.chars().take(64).collect(),
        holds: holds.bounded(),
    };
    Ok(list.sign(&node.keys.result))
}

fn refusal(code: Code, detail: &str) -> Refusal {
    let detail = detail.to_owned();
    Refusal { code, detail }
}

/// By allocation: its leases, what was written down of its VM, and the VM itself.
#[derive(Default)]
struct Found {
    leases: Vec<(SlotId, Owner)>,
    kept: Option<Kept>,
    vm: Option<(Name, Seen)>,
}

/// Everything of tenants that is here. Whether VMs are there can be unknown; who has which slot cannot.
pub(crate) fn look(host: &Host) -> host::Result<Holdings> {
    let mut all: BTreeMap<AllocationId, Found> = BTreeMap::new();
    for (slot, owner) in host.leases.all()? {
        all.entry(owner.allocation).or_default().leases.push((slot, owner));
    }
    for kept in host.slices.kept()? {
        let found = all.entry(kept.machine.allocation).or_default();
        found.kept = Some(kept);
    }
    // Only a host that ever had a slice is asked for its VMs: others may have nothing that runs any.
    let machines = match all.is_empty() && host.machines.check_tools().is_err() {
        true => Ok(Vec::new()),
        false => host.machines.ours(),
    };
    for (name, seen) in machines.as_ref().into_iter().flatten() {
        if let Some(allocation) = seen.allocation {
            all.entry(allocation).or_default().vm = Some((name.clone(), seen.clone()));
        }
    }
    let unknown = machines.is_err();
    if let Err(error) = &machines {
        tracing::warn!(%error, "what runs VMs does not answer");
    }
    let slices = all
        .into_iter()
        .map(|(allocation, found)| slice(allocation, found, unknown));
    let users = host.users.residents()?.into_iter().map(|resident| HeldUser {
        allocation_id: resident.tenant.owner,
        username: resident.tenant.name,
        uid: resident.tenant.uid,
        since: resident.since,
        gone: !resident.has_account,
    });
    Ok(Holdings {
        slices: slices.collect(),
        users: users.collect(),
        truncated: false,
    })
}

fn slice(allocation_id: AllocationId, found: Found, unknown: bool) -> HeldSlice {
    let Found { leases, kept, vm } = found;
    let leased = leases.first().map(|(_, owner)| owner.op);
    let mut slots: Vec<SlotId> = leases.into_iter().map(|(slot, _)| slot).collect();
    slots.extend(kept.iter().flat_map(|kept| kept.slots.iter().copied()));
    slots.sort();
    slots.dedup();
    let power = match &vm {
        Some((_, seen)) if seen.power == Power::Running => HeldPower::Running,
        Some(_) => HeldPower::Off,
        None if unknown => HeldPower::Unknown,
        None => HeldPower::Absent,
    };
    let name = kept.as_ref().map(|kept| kept.machine.name.clone());
    HeldSlice {
        allocation_id,
        op_id: kept.as_ref().map(|kept| kept.machine.op).or(leased),
        slots,
        vm_name: vm.map(|(name, _)| name).or(name),
        power,
        since: kept.map(|kept| kept.since),
        trouble: None,
    }
}
