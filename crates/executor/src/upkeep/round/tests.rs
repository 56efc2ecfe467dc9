//! Two tenants on a host that starts anew: neither waits for the other's VM without a network.

use std::cell::{Cell, RefCell};

use host::pretend::{Pretend, Profile, State};
use model::id::AllocationId;
use model::signal::Code;

use super::Round;
use crate::tasks::proof_of_slices::{ALLOCATION, resident};
use crate::upkeep::{Busy, Troubles};

/// Who has the third slot already.
const NEIGHBOUR: u128 = 2;

fn allocation(number: u128) -> AllocationId {
    uuid::Uuid::from_u128(number).into()
}

/// The neighbour has a VM too, of the same kind.
fn two(state: &mut State) {
    resident(state);
    let (mut dir, name) = (state.slicing.dirs["ada-vm"].clone(), "bob-vm");
    dir.allocation = allocation(NEIGHBOUR);
    let kept = dir.kept.as_mut().expect("written down");
    kept.slots = vec![uuid::Uuid::from_u128(0x53).into()];
    kept.machine.name = name.parse().expect("a plain word");
    kept.machine.allocation = dir.allocation;
    kept.machine.parts[0].disk = "nvme-bob".parse().expect("a name");
    kept.machine.parts[0].devices.clear();
    kept.port.plug.vm = kept.machine.name.clone();
    kept.port.plug.allocation = dir.allocation;
    kept.port.plug.slot_index = 2;
    kept.port.mac = "02:00:00:00:00:02".parse().expect("an address");
    kept.port.ip = std::net::Ipv4Addr::new(10, 77, 0, 12);
    state.slicing.dirs.insert(name.to_owned(), dir);
}

/// How many ports and how many running VMs there are.
fn standing(pretend: &Pretend) -> (usize, usize) {
    let slicing = pretend.snapshot().slicing;
    let running = slicing.machines.values().filter(|there| there.running).count();
    (slicing.ports.len(), running)
}

fn booted() -> Pretend {
    let pretend = Pretend::in_memory(Profile::H100x8);
    pretend.meddle(two);
    pretend.reboot().expect("starts");
    assert_eq!(standing(&pretend), (0, 0));
    pretend
}

/// With somebody who looks whenever a VM's turn comes. Gives what could not be made whole.
fn round(pretend: &Pretend, look: impl Fn(AllocationId)) -> Option<Troubles> {
    let (host, busy) = (pretend.host(), Busy::default());
    let boot_id = host.facts.boot_id().expect("a boot");
    let take = |allocation| {
        look(allocation);
        busy.try_take(allocation)
    };
    let round = Round {
        host: &host,
        boot_id: &boot_id,
        take: &take,
        over: &|| false,
    };
    round.walk()
}

#[test]
fn all_ports_stand_before_the_first_vm_starts_and_again_before_the_next() {
    let pretend = booted();
    let (seen, spoiled) = (RefCell::new(Vec::new()), Cell::new(false));
    let troubles = round(&pretend, |_| {
        // A switch that is restarted while the first VM is.
        if standing(&pretend).1 == 1 && !spoiled.replace(true) {
            pretend.meddle(|state| state.slicing.ports.clear());
        }
        seen.borrow_mut().push(standing(&pretend));
    });
    assert!(troubles.is_some_and(|troubles| troubles.is_empty()));
    let ports = [(0, 0), (1, 0)];
    let (first, ports_again, second) = ((2, 0), [(0, 1), (1, 1)], (2, 1));
    let (and_again, whole) = ([(2, 2), (2, 2)], (2, 2));
    let expected = [&ports[..], &[first], &ports_again, &[second], &and_again].concat();
    assert_eq!(*seen.borrow(), expected);
    assert_eq!(standing(&pretend), whole);
}

#[test]
fn one_that_cannot_be_made_whole_is_told_of_and_keeps_nobody_else_down() {
    let pretend = booted();
    pretend.meddle(|state| {
        let lost = state.slicing.leases.remove(&uuid::Uuid::from_u128(0x51).into());
        assert!(lost.is_some_and(|owner| owner.allocation == allocation(ALLOCATION)));
    });
    let troubles = round(&pretend, |_| ()).expect("to its end");
    assert_eq!(Vec::from_iter(troubles), [(allocation(ALLOCATION), Code::SlotLeased)]);
    assert_eq!(standing(&pretend), (1, 1));
}

#[test]
fn a_round_that_finds_everything_whole_looks_at_each_port_once() {
    let pretend = booted();
    round(&pretend, |_| ()).expect("to its end");
    let turns = RefCell::new(Vec::new());
    round(&pretend, |allocation| turns.borrow_mut().push(allocation)).expect("to its end");
    assert_eq!(turns.take(), [allocation(ALLOCATION), allocation(NEIGHBOUR)]);
}
