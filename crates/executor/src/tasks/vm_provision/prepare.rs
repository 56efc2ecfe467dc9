//! Phases that only look, and the lease before them.

use model::signal::Code;
use steps::Fail;

use super::Provision;
use crate::tasks::{fail, failed};

/// A VM that this operation has made before is not this task's to take away, whatever fails from here on.
pub(super) fn lease(p: &mut Provision) -> Result<(), Fail> {
    allowed_here(p)?;
    p.sources.check(&p.params)?;
    let (hold, host) = (&p.hold, &p.hold.host);
    host.leases
        .ensure_leased(&hold.slot_ids(), &hold.owner)
        .map_err(failed)?;
    p.facts.stood = stands(p)?;
    Ok(())
}

/// What root on this host has said about guests' networks.
fn allowed_here(p: &Provision) -> Result<(), Fail> {
    let bridge = &p.params.ovs_bridge;
    if !p.policy.bridges.contains(bridge) {
        let why = format!("ovs_bridge: local policy does not name {bridge}");
        return Err(fail(Code::SliceBridgeMissing, why));
    }
    let Some(cidr) = p.policy.cidr else {
        return Err(fail(Code::SliceNetworkUnset, "local policy has no slice_cidr"));
    };
    match p.hold.slots.iter().find(|slot| !cidr.contains(slot.private_ip)) {
        Some(slot) => {
            let why = format!("private_ip: {} is not in {cidr}", slot.private_ip);
            Err(fail(Code::ParamsInvalid, why))
        }
        None => Ok(()),
    }
}

fn stands(p: &Provision) -> Result<bool, Fail> {
    let seen = p.hold.host.machines.observe(&p.hold.vm).map_err(failed)?;
    Ok(seen.is_some_and(|seen| seen.allocation == Some(p.hold.owner.allocation)))
}

/// A slot whose devices a VM still has stays leased, whatever it costs: the next tenant would share them. Our own VM,
/// if it is here when all else is undone, stood before.
pub(super) fn no_lease(p: &mut Provision) -> Result<(), Fail> {
    let (hold, host) = (&p.hold, &p.hold.host);
    if stands(p)? {
        return Ok(());
    }
    for slot in &hold.slots {
        let holder = host.leases.holder(slot.slot_id).map_err(failed)?;
        if !holder.is_some_and(|holder| holder.is(&hold.owner)) {
            continue;
        }
        for device in slot.devices() {
            if let Some(vm) = host.machines.holder_of_device(device).map_err(failed)? {
                return Err(fail(Code::VfioGroupBusy, format!("{device}: the VM {vm} has it")));
            }
        }
    }
    host.leases
        .ensure_not_leased(&hold.slot_ids(), &hold.owner)
        .map_err(failed)
}

pub(super) fn dependencies(p: &mut Provision) -> Result<(), Fail> {
    p.hold.host.machines.check_tools().map_err(failed)
}

pub(super) fn passthrough(p: &mut Provision) -> Result<(), Fail> {
    let memory_mib = p.hold.slots.iter().map(|slot| slot.memory_mib).sum();
    p.hold.host.devices.check_passthrough(memory_mib).map_err(failed)
}

/// Also notes what the guest will get, and what the devices' ROMs are before it has them.
pub(super) fn vfio(p: &mut Provision) -> Result<(), Fail> {
    p.hold.refuse_foreign_guests()?;
    let mut functions = std::collections::BTreeMap::new();
    for slot in &p.hold.slots {
        let mut own = Vec::new();
        for device in slot.devices() {
            let bound = p.hold.host.devices.ensure_vfio_bound(device).map_err(failed)?;
            own.extend(bound.functions);
        }
        own.sort();
        own.dedup();
        functions.insert(slot.slot_id, own);
    }
    p.facts.functions = functions;
    p.facts.baseline = p.hold.look_at_roms()?;
    Ok(())
}

/// The guard is asked here too, where it costs nothing to turn back; it counts at the write.
pub(super) fn validate(p: &mut Provision) -> Result<(), Fail> {
    p.hold.host.network.check_bridge(&p.params.ovs_bridge).map_err(failed)?;
    if p.facts.stood {
        return Ok(());
    }
    p.hold.slots.iter().try_for_each(|slot| p.hold.guarded(slot).map(drop))
}
