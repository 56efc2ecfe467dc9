//! What is signed of a slot that was used: everything that was seen of a disk that could not be cleaned, and both proofs,
//! of the disk and of the devices, however far a provision has come.

use host::pretend::Fault;
use model::outcome::{Outcome, ResultPayload};
use model::proof::Verdict;
use model::signal::Code;
use model::task::vm_provision::Params;
use model::task::{Task, vm_release};
use model::value::Nonce;

use crate::images::{stand, wish};
use crate::place::{Agent, Place};

fn released(place: &Place, agent: &mut Agent, params: &Params) -> ResultPayload {
    let task = Task::VmRelease(vm_release::Params {
        allocation_id: params.allocation_id,
        vm_name: params.vm_name.clone(),
        slots: params.slots.clone(),
        graceful_timeout_seconds: 30,
        wipe: true,
        release_nonce: Nonce::from_bytes([7; 32]),
    });
    agent.run(place, &place.house.payload(&task))
}

#[test]
fn abuse_30_a_wipe_that_did_nothing_is_signed_as_dirty() {
    let (place, mut agent) = stand();
    let params = Params {
        image_trusted: true,
        ..wish(&place)
    };
    let task = Task::VmProvision(params.clone());
    let made = agent.run(&place, &place.house.payload(&task));
    assert_eq!(made.outcome, Outcome::Succeeded, "{:?} {:?}", made.code, made.detail);
    let slot = &params.slots[0];
    let lie = Fault::WipeDoesNothing(slot.nvme_device.clone());
    place
        .pretend
        .meddle(|state| assert!(state.hardware.faults.insert(lie.clone())));

    let result = released(&place, &mut agent, &params);
    assert_eq!(
        (result.outcome, result.code),
        (Outcome::Failed, Some(Code::WipeUnproved))
    );
    let proofs = result.proofs.expect("what was seen");
    assert!(!proofs.disk_untouched);
    let [dirty] = &proofs.wipe[..] else {
        panic!("one disk: {:?}", proofs.wipe)
    };
    assert_eq!((dirty.verdict, dirty.is_clean()), (Verdict::Dirty, false));
    assert!(dirty.markers_planted > 0 && dirty.markers_found == dirty.markers_planted);
    assert_eq!(
        (&dirty.serial, &dirty.wwn, dirty.size_bytes, dirty.nonce),
        (
            &slot.nvme_serial,
            &slot.nvme_wwn,
            slot.nvme_size_bytes,
            Nonce::from_bytes([7; 32])
        )
    );
    let leases = place.pretend.snapshot().slicing.leases;
    assert!(leases.contains_key(&slot.slot_id), "nobody else gets it");

    place
        .pretend
        .meddle(|state| assert!(state.hardware.faults.remove(&lie)));
    let result = released(&place, &mut agent, &params);
    assert_eq!(
        result.outcome,
        Outcome::Succeeded,
        "{:?} {:?}",
        result.code,
        result.detail
    );
    let proofs = result.proofs.expect("what was seen");
    assert!(proofs.wipe.len() == 1 && proofs.wipe[0].is_clean());
    assert!(place.pretend.snapshot().slicing.leases.is_empty());
}

#[test]
fn a_slot_whose_image_could_not_be_written_is_clean_again_with_both_proofs() {
    let (place, mut agent) = stand();
    let params = Params {
        image_trusted: true,
        ..wish(&place)
    };
    let slot = &params.slots[0];
    let stops = Fault::ImageStops(slot.nvme_device.clone());
    place
        .pretend
        .meddle(|state| assert!(state.hardware.faults.insert(stops)));
    let task = Task::VmProvision(params.clone());
    let result = agent.run(&place, &place.house.payload(&task));
    assert_eq!(result.outcome, Outcome::Failed);
    assert!(result.detail.expect("why").starts_with("image_write_convert"));
    let proofs = result.proofs.expect("what was seen");
    assert!(!proofs.disk_untouched);
    assert!(proofs.wipe.len() == 1 && proofs.wipe[0].is_clean());
    // No guest has had them; but whoever gives the slot to the next tenant asks for this proof, too.
    let mut reset: Vec<_> = proofs.reset.iter().map(|proof| proof.pci_address).collect();
    let mut devices: Vec<_> = std::iter::once(slot.pci_address).chain(slot.fabric_device).collect();
    reset.sort_unstable();
    devices.sort_unstable();
    assert_eq!(reset, devices);
}
