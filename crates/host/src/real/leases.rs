//! Leases as files, one per slot: linked into place whole, so that of two who want a slot one is first. The file says
//! whose it is; it ends when that operation or a release of that allocation removes it, and in no other way.

use std::path::{Path, PathBuf};

use model::id::{AllocationId, SlotId};
use model::signal::Code;

use super::whole::Folder;
use crate::{Error, Owner, Result};

const DIR: &str = "var/lib/gpuaas/slots";
const LEASE: &str = ".lease";

pub struct Leases {
    dir: PathBuf,
}

impl Leases {
    pub fn under(root: &Path) -> Self {
        Self { dir: root.join(DIR) }
    }

    fn take(folder: &Folder, slot: SlotId, owner: &Owner, fits: impl Fn(&Owner) -> bool) -> Result<()> {
        let bytes = serde_json::to_vec(owner).map_err(|_| unreadable(folder, slot))?;
        // Whoever had it may let go between the two looks; then the next try decides.
        for _ in 0..3 {
            if folder.write_new(&file_name(slot), &bytes, 0o600)? {
                return Ok(());
            }
            match read(folder, slot)? {
                Some(holder) if fits(&holder) => return Ok(()),
                Some(holder) => return Err(leased(slot, &holder)),
                None => {}
            }
        }
        Err(unreadable(folder, slot))
    }
}

impl crate::Leases for Leases {
    fn ensure_leased(&self, slots: &[SlotId], owner: &Owner) -> Result<()> {
        let folder = Folder::ensure(&self.dir)?;
        sorted(slots)
            .into_iter()
            .try_for_each(|slot| Self::take(&folder, slot, owner, |holder| holder.is(owner)))
    }

    fn ensure_not_leased(&self, slots: &[SlotId], owner: &Owner) -> Result<()> {
        let Some(folder) = Folder::open(&self.dir)? else {
            return Ok(());
        };
        for slot in sorted(slots) {
            if read(&folder, slot)?.is_some_and(|holder| holder.is(owner)) {
                folder.remove(&file_name(slot))?;
            }
        }
        Ok(())
    }

    fn ensure_held(&self, slots: &[SlotId], owner: &Owner) -> Result<()> {
        let folder = Folder::ensure(&self.dir)?;
        // Look at all before taking one: a release of the wrong slots takes nothing.
        for slot in sorted(slots) {
            match read(&folder, slot)? {
                Some(holder) if holder.allocation != owner.allocation => return Err(leased(slot, &holder)),
                Some(_) | None => {}
            }
        }
        sorted(slots)
            .into_iter()
            .try_for_each(|slot| Self::take(&folder, slot, owner, |holder| holder.allocation == owner.allocation))
    }

    fn ensure_released(&self, slots: &[SlotId], allocation: AllocationId) -> Result<u32> {
        let Some(folder) = Folder::open(&self.dir)? else {
            return Ok(0);
        };
        let mut free = 0;
        for slot in sorted(slots) {
            match read(&folder, slot)? {
                Some(holder) if holder.allocation != allocation => return Err(leased(slot, &holder)),
                Some(_) | None => folder.remove(&file_name(slot))?,
            }
            free += 1;
        }
        Ok(free)
    }

    fn holder(&self, slot: SlotId) -> Result<Option<Owner>> {
        match Folder::open(&self.dir)? {
            Some(folder) => read(&folder, slot),
            None => Ok(None),
        }
    }

    fn all(&self) -> Result<Vec<(SlotId, Owner)>> {
        let Some(folder) = Folder::open(&self.dir)? else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for name in folder.names()? {
            let slot = name.strip_suffix(LEASE).and_then(|slot| slot.parse().ok());
            let Some(slot) = slot else { continue };
            // It may have been let go since the names were read.
            all.extend(read(&folder, slot)?.map(|owner| (slot, owner)));
        }
        Ok(all)
    }
}

/// Always in the same order: two who want the same two slots do not each get one.
fn sorted(slots: &[SlotId]) -> Vec<SlotId> {
    let mut slots = slots.to_vec();
    slots.sort();
    slots.dedup();
    slots
}

fn file_name(slot: SlotId) -> String {
    format!("{slot}{LEASE}")
}

/// A lease that cannot be read is somebody's.
fn read(folder: &Folder, slot: SlotId) -> Result<Option<Owner>> {
    let Some(text) = folder.read(&file_name(slot))? else {
        return Ok(None);
    };
    let owner = serde_json::from_str(&text).map_err(|_| unreadable(folder, slot))?;
    Ok(Some(owner))
}

fn unreadable(folder: &Folder, slot: SlotId) -> Error {
    Error::Slice {
        code: Code::SlotLeased,
        subject: slot.to_string(),
        why: format!("its lease in {} cannot be read", folder.path().display()),
    }
}

pub(crate) fn leased(slot: SlotId, holder: &Owner) -> Error {
    Error::Slice {
        code: Code::SlotLeased,
        subject: slot.to_string(),
        why: format!("{} has it, by {}", holder.allocation, holder.op),
    }
}
