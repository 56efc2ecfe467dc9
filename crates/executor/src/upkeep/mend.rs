//! One VM made whole: port first, then devices, then the VM; each as its phase would.

use host::{Error, Host, Kept};
use model::id::AllocationId;
use model::signal::Code;
use model::task::vm_power::Power;

/// Its port alone. Gives what was written down of it; None if nothing is any more.
pub(super) fn port(host: &Host, allocation: AllocationId) -> host::Result<Option<Kept>> {
    // Looked up once more: a release may have ended since.
    let mut all = host.slices.kept()?.into_iter();
    let Some(kept) = all.find(|kept| kept.machine.allocation == allocation) else {
        return Ok(None);
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
    Ok(Some(kept))
}

/// All of it. Written down anew only when it stands.
pub(super) fn machine(host: &Host, allocation: AllocationId, boot_id: &str) -> host::Result<()> {
    let Some(kept) = port(host, allocation)?.filter(|kept| kept.boot_id != boot_id) else {
        return Ok(());
    };
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
