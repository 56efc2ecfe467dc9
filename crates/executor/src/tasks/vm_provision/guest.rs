//! Phases of what the guest is told before it boots, and of what it says afterwards.

use std::time::Duration;

use host::{Guest, Wish};
use model::signal::Code;
use steps::Fail;

use super::Provision;
use crate::tasks::{fail, failed};

/// With the ROMs' digests in it, for the release that will need them.
pub(super) fn dir(p: &mut Provision) -> Result<(), Fail> {
    let (slices, slice) = (&p.hold.host.slices, p.hold.slice());
    slices.ensure_dir(&slice).map_err(failed)?;
    slices.ensure_baseline(&slice, &p.facts.baseline).map_err(failed)
}

pub(super) fn no_dir(p: &mut Provision) -> Result<(), Fail> {
    if p.facts.stood {
        return Ok(());
    }
    p.hold.host.slices.ensure_no_dir(&p.hold.slice()).map_err(failed)
}

pub(super) fn keys(p: &mut Provision) -> Result<(), Fail> {
    p.hold.host.slices.ensure_keys(&p.hold.slice()).map_err(failed)
}

pub(super) fn telemetry(p: &mut Provision) -> Result<(), Fail> {
    let Some(first) = p.hold.slots.first() else {
        return Ok(());
    };
    p.hold
        .host
        .slices
        .ensure_telemetry(&p.hold.slice(), first.mac_address, first.private_ip)
        .map_err(failed)
}

pub(super) fn no_telemetry(p: &mut Provision) -> Result<(), Fail> {
    if p.facts.stood {
        return Ok(());
    }
    p.hold.host.slices.ensure_no_telemetry(&p.hold.slice()).map_err(failed)
}

pub(super) fn seed_files(p: &mut Provision) -> Result<(), Fail> {
    let wish = Wish {
        user: p.params.default_username.clone(),
        keys: p.params.ssh_public_keys.clone(),
        drivers: p.params.driver_strategy,
    };
    p.hold
        .host
        .slices
        .ensure_seed_files(&p.hold.slice(), &wish)
        .map_err(failed)
}

pub(super) fn seed_image(p: &mut Provision) -> Result<(), Fail> {
    let made = p.hold.host.slices.ensure_seed_image(&p.hold.slice());
    made.map_err(failed).map(drop)
}

fn guest(p: &Provision) -> Result<Guest, Fail> {
    let first = p.hold.slots.first();
    let ip = first.map(|slot| slot.private_ip);
    Ok(Guest {
        slice: p.hold.slice(),
        user: p.params.default_username.clone(),
        ip: ip.ok_or_else(|| fail(Code::ParamsInvalid, "slots: none"))?,
    })
}

pub(super) fn ready(p: &mut Provision) -> Result<(), Fail> {
    let wait = Duration::from_secs(u64::from(p.params.readiness_timeout_seconds));
    let seen = p.hold.host.guests.await_ready(&guest(p)?, wait);
    p.facts.readiness = Some(seen.map_err(failed)?);
    Ok(())
}

/// What is missing fails; what is less than it should be is told.
pub(super) fn complete(p: &mut Provision) -> Result<(), Fail> {
    let mut seen = p.hold.host.guests.look(&guest(p)?).map_err(failed)?;
    let slots = &p.hold.slots;
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let fabric = slots.iter().filter(|slot| slot.fabric_device.is_some()).count();
    for (what, seen, given) in [
        ("GPUs", seen.gpus, count(slots.len())),
        ("fabric devices", seen.fabric_devices, count(fabric)),
        ("disks", seen.disks, count(slots.len())),
    ] {
        if seen < given {
            let why = format!("the guest sees {seen} {what} and was given {given}");
            return Err(fail(Code::GuestIncomplete, why));
        }
    }
    let (vcpus, memory_mib) = (
        slots.iter().map(|slot| slot.vcpu_count).sum::<u32>(),
        slots.iter().map(|slot| slot.memory_mib).sum::<u64>(),
    );
    if seen.vcpus < vcpus {
        let why = format!("the guest uses {} of {vcpus} processors", seen.vcpus);
        seen.warnings.push(why);
    }
    // A kernel keeps some of it for itself.
    if seen.memory_mib < memory_mib / 10 * 8 {
        let why = format!("the guest uses {} of {memory_mib} MiB of memory", seen.memory_mib);
        seen.warnings.push(why);
    }
    p.facts.performance = Some(seen);
    Ok(())
}
