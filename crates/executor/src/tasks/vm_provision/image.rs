//! Phases of the image: into the store, looked at, onto the first slot's disk.

use host::Image;
use model::signal::Code;
use steps::Fail;

use super::Provision;
use crate::tasks::{fail, failed};

pub(super) fn store(p: &mut Provision) -> Result<(), Fail> {
    p.sources.store(&*p.hold.host.images, &p.params)
}

pub(super) fn verify(p: &mut Provision) -> Result<(), Fail> {
    let size_bytes = p.hold.host.images.verify(&image(p)).map_err(failed)?;
    let room_bytes = p.hold.slots.first().map_or(0, |slot| slot.nvme_size_bytes);
    if size_bytes > room_bytes {
        let why = format!("the disk inside has {size_bytes} bytes, the slot's disk {room_bytes}");
        return Err(fail(Code::ImageRefused, why));
    }
    Ok(())
}

pub(super) fn write(p: &mut Provision) -> Result<(), Fail> {
    let Some(first) = p.hold.slots.first() else {
        return Ok(());
    };
    if p.facts.stood {
        return Ok(());
    }
    let disk = p.hold.guarded(first)?;
    p.hold.host.images.write(&image(p), &*disk).map_err(failed)
}

/// All of them: a guest that was started may have written to each.
pub(super) fn wipe(p: &mut Provision) -> Result<(), Fail> {
    if p.facts.stood {
        return Ok(());
    }
    let begun = p.hold.wipe()?;
    p.hold.prove_wiped(&begun, &mut p.facts.wipe)?;
    // No guest was started, so nobody has reset its devices yet; a slot is clean only with both proofs.
    if p.facts.reset.is_empty() {
        p.facts.reset = p.hold.reset(&p.facts.baseline)?;
    }
    Ok(())
}

fn image(p: &Provision) -> Image {
    p.sources.image(&p.params)
}
