//! Phases of the network port and the VM itself.

use host::{Kept, Machine, Part, Port};
use model::task::vm_power::Power;
use steps::Fail;

use super::Provision;
use crate::tasks::failed;

pub(super) fn port(p: &mut Provision) -> Result<(), Fail> {
    p.hold.host.network.ensure_port(&its_port(p)).map_err(failed)
}

/// The first slot's; parameters without a slot are refused.
fn its_port(p: &Provision) -> Port {
    let first = &p.hold.slots[0];
    Port {
        plug: p.hold.plug(),
        bridge: p.params.ovs_bridge.clone(),
        mac: first.mac_address,
        ip: first.private_ip,
    }
}

pub(super) fn no_port(p: &mut Provision) -> Result<(), Fail> {
    if p.facts.stood {
        return Ok(());
    }
    p.hold.host.network.ensure_no_port(&p.hold.plug()).map_err(failed)
}

/// Written down first: a VM that runs is one that a restart of the host brings back.
pub(super) fn start(p: &mut Provision) -> Result<(), Fail> {
    p.hold.refuse_foreign_guests()?;
    let kept = Kept {
        machine: machine(p),
        port: its_port(p),
        slots: p.hold.slot_ids(),
        since: p.hold.now(),
        power: Power::Running,
        boot_id: p.hold.host.facts.boot_id().map_err(failed)?,
    };
    let slices = &p.hold.host.slices;
    slices.ensure_kept(&p.hold.slice(), &kept).map_err(failed)?;
    p.hold.host.machines.ensure_running(&kept.machine).map_err(failed)
}

/// And its devices, which it may have had, are reset.
pub(super) fn gone(p: &mut Provision) -> Result<(), Fail> {
    if p.facts.stood {
        return Ok(());
    }
    let (hold, host) = (&p.hold, &p.hold.host);
    host.slices.ensure_not_kept(&hold.slice()).map_err(failed)?;
    host.machines
        .ensure_no_machine(&hold.vm, hold.owner.allocation)
        .map_err(failed)?;
    hold.refuse_guests(None)?;
    p.facts.reset = p.hold.reset(&p.facts.baseline)?;
    Ok(())
}

fn machine(p: &Provision) -> Machine {
    let hold = &p.hold;
    let parts = hold.slots.iter().map(|slot| Part {
        numa_node: slot.numa_node,
        vcpus: slot.vcpu_count,
        memory_mib: slot.memory_mib,
        disk: slot.nvme_device.clone(),
        devices: match p.facts.functions.get(&slot.slot_id) {
            Some(functions) => functions.clone(),
            None => slot.devices().collect(),
        },
    });
    let plug = hold.plug();
    Machine {
        name: hold.vm.clone(),
        allocation: hold.owner.allocation,
        op: hold.owner.op,
        parts: parts.collect(),
        seed: hold.host.slices.seed_image(&hold.slice()),
        interface: plug.interface(),
        mac: hold.slots[0].mac_address,
    }
}
