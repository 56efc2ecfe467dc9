//! A node's list beside the slots and tenants as we know them. Only what stands still is compared: a slot that is being
//! given, taken back or is in quarantine may look either way, and so may an account that is being made or taken away. A list may be made before a move of ours and arrive after it, so what
//! differs counts once the next list says it again.

use std::collections::BTreeSet;

use model::held::{HeldPayload, HeldPower, HeldSlice};
use model::id::{AllocationId, SlotId};
use model::signal::Code;
use model::state::SlotState;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::slot::SlotRow;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Difference {
    pub(super) code: String,
    pub(super) allocation: AllocationId,
    pub(super) slot: Option<SlotId>,
    pub(super) detail: String,
    /// When it was first seen.
    pub(super) since: Timestamp,
    /// Seen by more than one list on end.
    pub(super) confirmed: bool,
}

type Key<'a> = (&'a str, AllocationId, Option<SlotId>);

impl Difference {
    fn key(&self) -> Key<'_> {
        (&self.code, self.allocation, self.slot)
    }
}

pub(super) fn confirmed(all: &[Difference]) -> BTreeSet<Key<'_>> {
    all.iter()
        .filter(|difference| difference.confirmed)
        .map(Difference::key)
        .collect()
}

/// What we know of a node, for a list to be compared with.
pub(super) struct Believed {
    pub(super) slots: Vec<SlotRow>,
    pub(super) tenants: Vec<Tenant>,
}

/// An allocation of which something may be on the machine itself.
#[derive(Clone, Copy, Debug, sqlx::FromRow)]
pub(super) struct Tenant {
    pub(super) allocation_id: Uuid,
    /// It has the machine, its account was made, and nobody has asked for its end.
    pub(super) settled: bool,
}

pub(super) fn judge(list: &HeldPayload, believed: &Believed, known: &[Difference], now: Timestamp) -> Vec<Difference> {
    let Believed { slots, tenants } = believed;
    let mut found = Vec::new();
    let mut note = |code: Code, allocation, slot, detail| {
        let code = code.as_str().to_owned();
        let before = known.iter().find(|old| old.key() == (&code, allocation, slot));
        found.push(Difference {
            since: before.map_or(now, |before| before.since),
            confirmed: before.is_some(),
            code,
            allocation,
            slot,
            detail,
        });
    };
    for held in &list.holds.slices {
        for slot in orphaned(held, slots) {
            let whose = held.allocation_id;
            let detail = match slot {
                Some(slot) => format!("{} holds {} here, and it is not its", whose, slot),
                None => format!("{whose} has a VM without a slot"),
            };
            note(Code::VmOrphaned, whose, slot, detail);
        }
    }
    for held in &list.holds.users {
        let whose = held.allocation_id;
        if !tenants.iter().any(|tenant| tenant.allocation_id == whose.uuid()) {
            let detail = format!("the account {} is {whose}'s, which has nothing here", held.username);
            note(Code::AccountOrphaned, whose, None, detail);
        }
    }
    if !list.holds.truncated {
        for tenant in tenants.iter().filter(|tenant| tenant.settled) {
            let whose = AllocationId::from(tenant.allocation_id);
            let mut held = list.holds.users.iter().filter(|held| held.allocation_id == whose);
            if !held.any(|held| !held.gone) {
                let detail = "its node has no account of the allocation that has the machine".to_owned();
                note(Code::AccountLost, whose, None, detail);
            }
        }
        for slot in slots.iter().filter(|slot| slot.state == SlotState::Leased.as_str()) {
            let Some(allocation) = slot.allocation_id.map(AllocationId::from) else {
                continue;
            };
            let held = list.holds.slices.iter().find(|held| held.allocation_id == allocation);
            if let Some(detail) = lost(held, slot.id()) {
                note(Code::VmLost, allocation, Some(slot.id()), detail);
            } else if let Some(word) = held.and_then(|held| held.trouble.as_ref()) {
                note(
                    Code::VmDown,
                    allocation,
                    Some(slot.id()),
                    format!("its node cannot make it whole: {word}"),
                );
            }
        }
    }
    found
}

/// Which of its slots are nobody's or another's by what we know; one without slots is a VM that we know nothing of.
fn orphaned(held: &HeldSlice, slots: &[SlotRow]) -> Vec<Option<SlotId>> {
    if held.slots.is_empty() {
        let expected = slots
            .iter()
            .any(|slot| slot.allocation_id.map(AllocationId::from) == Some(held.allocation_id));
        return if expected { Vec::new() } else { vec![None] };
    }
    let wrong = held.slots.iter().filter(|id| {
        let Some(row) = slots.iter().find(|row| row.id() == **id) else {
            return true;
        };
        match row.state() {
            Ok(SlotState::Candidate | SlotState::Free | SlotState::Rejected | SlotState::Retired) => true,
            // What was just reserved has no task yet; the host's own lease decides.
            Ok(SlotState::Reserved | SlotState::Leased | SlotState::Releasing) => {
                row.allocation_id.map(AllocationId::from) != Some(held.allocation_id)
            }
            Ok(SlotState::Quarantined) | Err(_) => false,
        }
    });
    wrong.map(|id| Some(*id)).collect()
}

fn lost(held: Option<&HeldSlice>, slot: SlotId) -> Option<String> {
    let Some(held) = held else {
        return Some("its node holds nothing for the allocation that has it".to_owned());
    };
    if !held.slots.contains(&slot) {
        return Some("its node's lease of it is gone".to_owned());
    }
    match held.power {
        HeldPower::Absent => Some(match &held.trouble {
            Some(word) => format!("there is no VM: {word}"),
            None => "there is no VM".to_owned(),
        }),
        HeldPower::Running | HeldPower::Off | HeldPower::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use model::held::{HeldUser, Holdings};
    use model::id::{InstallationId, NodeId};

    use super::*;

    fn codes(users: &[AllocationId], (gone, truncated): (bool, bool), tenants: &[(AllocationId, bool)]) -> Vec<String> {
        let users = users.iter().map(|whose| HeldUser {
            allocation_id: *whose,
            username: "tenant".parse().expect("a name"),
            uid: 20_001.try_into().expect("a tenant's"),
            since: None,
            gone,
        });
        let now = Timestamp::from_millis(1_000);
        let list = HeldPayload {
            aud: InstallationId::new(),
            node_id: NodeId::new(),
            node_epoch: 1,
            number: 1,
            at: now,
            boot_id: String::new(),
            holds: Holdings {
                users: users.collect(),
                truncated,
                ..Holdings::default()
            },
        };
        let tenants = tenants.iter().map(|(whose, settled)| Tenant {
            allocation_id: whose.uuid(),
            settled: *settled,
        });
        let believed = Believed {
            slots: Vec::new(),
            tenants: tenants.collect(),
        };
        let once = judge(&list, &believed, &[], now);
        assert!(once.iter().all(|found| !found.confirmed), "one list is not enough");
        let twice = judge(&list, &believed, &once, now);
        assert!(twice.iter().all(|found| found.confirmed));
        twice.into_iter().map(|found| found.code).collect()
    }

    #[test]
    fn an_account_is_there_when_a_tenant_has_the_machine_and_only_then() {
        let (one, other) = (AllocationId::new(), AllocationId::new());
        assert_eq!(codes(&[], (false, false), &[]), [""; 0]);
        assert_eq!(codes(&[one], (false, false), &[(one, true)]), [""; 0]);
        assert_eq!(codes(&[one], (false, false), &[]), ["account_orphaned"]);
        assert_eq!(codes(&[], (false, false), &[(one, true)]), ["account_lost"]);
        assert_eq!(
            codes(&[other], (false, false), &[(one, true)]),
            ["account_orphaned", "account_lost"]
        );
        assert_eq!(codes(&[one], (true, false), &[(one, true)]), ["account_lost"]);
        // On its way in or out it may be there or not; and a list without room for all says nothing of the rest.
        assert_eq!(codes(&[], (false, false), &[(one, false)]), [""; 0]);
        assert_eq!(codes(&[one], (false, false), &[(one, false)]), [""; 0]);
        assert_eq!(codes(&[], (false, true), &[(one, true)]), [""; 0]);
    }
}
