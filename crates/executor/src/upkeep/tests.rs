//! A host that starts anew, at every call of what mends it.

use host::pretend::{Blow, Pretend, Profile, State};
use model::task::vm_power::Power;

use super::mend;
use crate::tasks::proof_of_slices::{ALLOCATION, resident};

fn whole() -> Pretend {
    let pretend = Pretend::in_memory(Profile::H100x8);
    pretend.meddle(resident);
    pretend
}

fn again(pretend: &Pretend) -> host::Result<()> {
    let host = pretend.host();
    let boot_id = host.facts.boot_id().expect("a boot");
    mend::machine(&host, uuid::Uuid::from_u128(ALLOCATION).into(), &boot_id)
}

/// Apart from what counts its starts.
fn apart_from_starts(pretend: &Pretend) -> State {
    let mut state = pretend.snapshot();
    state.boots = 0;
    for kept in state.slicing.dirs.values_mut().filter_map(|dir| dir.kept.as_mut()) {
        kept.boot_id = String::new();
    }
    state
}

#[test]
fn after_a_start_of_the_host_all_is_as_it_was_wherever_mending_is_cut_short() {
    let before = apart_from_starts(&whole());
    for call in 0.. {
        for blow in [Blow::Before, Blow::After] {
            let pretend = whole();
            pretend.reboot().expect("starts");
            assert_ne!(apart_from_starts(&pretend), before);
            pretend.set_fuse(call, blow);
            let first = again(&pretend);
            assert_eq!(first.is_err(), pretend.fuse_blown());
            if first.is_ok() {
                assert_eq!(apart_from_starts(&pretend), before);
                assert!(call > 5, "it was cut short in more places than that");
                return;
            }
            again(&pretend).expect("nothing stands in its way");
            assert_eq!(apart_from_starts(&pretend), before, "cut short at call {call}");
        }
    }
}

#[test]
fn a_guest_that_switched_itself_off_stays_off_until_the_host_starts_anew() {
    let pretend = whole();
    pretend.meddle(|state| {
        state
            .slicing
            .machines
            .values_mut()
            .for_each(|there| there.running = false)
    });
    again(&pretend).expect("nothing to do");
    assert!(pretend.snapshot().slicing.machines.values().all(|there| !there.running));
}

#[test]
fn a_switch_that_forgot_its_flows_is_told_them_again() {
    let pretend = whole();
    let before = pretend.snapshot();
    pretend.meddle(|state| state.slicing.ports.clear());
    again(&pretend).expect("nothing stands in its way");
    assert_eq!(pretend.snapshot(), before);
}

#[test]
fn what_was_switched_off_on_purpose_or_has_no_lease_is_not_started() {
    for spoil in [
        (|state: &mut State| {
            let kept = state.slicing.dirs.values_mut().filter_map(|dir| dir.kept.as_mut());
            kept.for_each(|kept| kept.power = Power::Off);
        }) as fn(&mut State),
        |state| state.slicing.leases.clear(),
        |state| state.slicing.dirs.values_mut().for_each(|dir| dir.kept = None),
    ] {
        let pretend = whole();
        pretend.meddle(spoil);
        pretend.reboot().expect("starts");
        // Refused or nothing to do: either way it is not started.
        again(&pretend).ok();
        assert!(pretend.snapshot().slicing.machines.values().all(|there| !there.running));
    }
}
