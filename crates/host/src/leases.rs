//! Who has a slot, on the host itself: the last word when two tasks or two control planes want the same one. A lease
//! has no age at which it ends. Its own operation may take it back, or a release of the same allocation.

use model::id::{AllocationId, OpId, SlotId};
use serde::{Deserialize, Serialize};

use crate::Result;

/// On whose behalf something is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    pub allocation: AllocationId,
    pub op: OpId,
    /// The node's epoch when it was made; for people.
    pub epoch: u64,
}

impl Owner {
    /// The same operation, whichever of its tasks asks.
    pub fn is(&self, other: &Owner) -> bool {
        self.allocation == other.allocation && self.op == other.op
    }
}

pub trait Leases: Send + Sync {
    /// All of them for this operation, or `slot_leased`: what it has taken until then stays its own, to be undone.
    fn ensure_leased(&self, slots: &[SlotId], owner: &Owner) -> Result<()>;

    /// Frees those of this operation and leaves others alone.
    fn ensure_not_leased(&self, slots: &[SlotId], owner: &Owner) -> Result<()>;

    /// For a release: each is the allocation's, from whichever operation, or is free and taken now. Else
    /// `slot_leased`, and nothing was taken.
    fn ensure_held(&self, slots: &[SlotId], owner: &Owner) -> Result<()>;

    /// Frees those of the allocation, from whichever operation; gives how many of the slots are free now.
    fn ensure_released(&self, slots: &[SlotId], allocation: AllocationId) -> Result<u32>;

    fn holder(&self, slot: SlotId) -> Result<Option<Owner>>;

    /// Every lease there is.
    fn all(&self) -> Result<Vec<(SlotId, Owner)>>;
}
