//! The pretend side of [`Leases`].

use model::id::{AllocationId, SlotId};

use super::Pretend;
use crate::real::leased;
use crate::{Leases, Owner, Result};

impl Leases for Pretend {
    fn ensure_leased(&self, slots: &[SlotId], owner: &Owner) -> Result<()> {
        self.act_on("ensure_leased", &owner.allocation.to_string(), |state| {
            for slot in slots {
                let holder = state.slicing.leases.entry(*slot).or_insert(*owner);
                if !holder.is(owner) {
                    return Err(leased(*slot, holder));
                }
            }
            Ok(())
        })
    }

    fn ensure_not_leased(&self, slots: &[SlotId], owner: &Owner) -> Result<()> {
        self.act_on("ensure_not_leased", &owner.allocation.to_string(), |state| {
            let leases = &mut state.slicing.leases;
            leases.retain(|slot, holder| !(slots.contains(slot) && holder.is(owner)));
            Ok(())
        })
    }

    fn ensure_held(&self, slots: &[SlotId], owner: &Owner) -> Result<()> {
        self.act_on("ensure_held", &owner.allocation.to_string(), |state| {
            for slot in slots {
                let holder = state.slicing.leases.entry(*slot).or_insert(*owner);
                if holder.allocation != owner.allocation {
                    return Err(leased(*slot, holder));
                }
            }
            Ok(())
        })
    }

    fn ensure_released(&self, slots: &[SlotId], allocation: AllocationId) -> Result<u32> {
        self.act_on("ensure_released", &allocation.to_string(), |state| {
            for slot in slots {
                match state.slicing.leases.get(slot) {
                    Some(holder) if holder.allocation != allocation => return Err(leased(*slot, holder)),
                    Some(_) | None => state.slicing.leases.remove(slot),
                };
            }
            Ok(u32::try_from(slots.len()).unwrap_or(u32::MAX))
        })
    }

    fn all(&self) -> Result<Vec<(SlotId, Owner)>> {
        self.call("all", |_, state| {
            Ok(state
                .slicing
                .leases
                .iter()
                .map(|(slot, owner)| (*slot, *owner))
                .collect())
        })
    }

    fn holder(&self, slot: SlotId) -> Result<Option<Owner>> {
        self.call("holder", |_, state| Ok(state.slicing.leases.get(&slot).copied()))
    }
}
