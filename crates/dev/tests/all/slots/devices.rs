//! What a discovery makes of slots, and what it does to those that were approved.

use model::api::TopologyView;
use model::digest::Sha256;
use model::task::topology_discover::Blocker;

use super::renter::Renter;
use super::*;

#[tokio::test]
async fn the_same_devices_stay_the_same_slots() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let missing: Result<TopologyView, _> = town.api().get(&format!("/v1/nodes/{}/topology", puppet.id())).await;
    assert_eq!(code(&missing.expect_err("nobody has looked")), Code::NotFound);
    let proposed = puppet.discovers(&town, &found(puppet.id())).await;
    assert_eq!(states(&proposed), [SlotState::Candidate; 8]);
    assert!(
        proposed
            .iter()
            .all(|slot| slot.simulated && slot.waiting.is_some() && slot.blockers.is_empty())
    );
    let before = puppet.in_service(&town).await;
    assert_eq!(states(&before), [SlotState::Free; 8]);
    assert!(
        before
            .iter()
            .all(|slot| slot.approved_by.is_some() && slot.approved_gpu == slot.gpu)
    );
    // Listed the other way round, under other numbers.
    let mut output = found(puppet.id());
    output.candidate_slots.reverse();
    for (index, slot) in output.candidate_slots.iter_mut().enumerate() {
        slot.slot_index = 100 + index as u32;
    }
    let after = puppet.discovers(&town, &output).await;
    let known = |slots: &[SlotView]| {
        slots
            .iter()
            .map(|s| (s.id, s.slot_index, s.pci_address, s.state))
            .collect::<Vec<_>>()
    };
    assert_eq!(known(&after), known(&before));
    let view: TopologyView = town
        .api()
        .get(&format!("/v1/nodes/{}/topology", puppet.id()))
        .await
        .expect("it was looked at");
    assert!(view.differences.is_empty() && view.simulated && view.topology == output);
    town.end().await;
}

#[tokio::test]
async fn an_approved_slot_with_other_devices_is_nobodys() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let fleet = town.fleet().await;
    let approved = puppet.in_service(&town).await;
    // One disk is gone, one GPU has another ROM, one disk was exchanged.
    let mut output = found(puppet.id());
    let gone = output.candidate_slots.remove(0);
    output.nvme_devices.retain(|disk| disk.by_id != gone.nvme_device);
    let flashed = output.candidate_slots[0].pci_address;
    for gpu in output.gpu_devices.iter_mut().filter(|gpu| gpu.pci_address == flashed) {
        gpu.vbios_sha256 = Some(Sha256::of(b"another ROM"));
    }
    output.candidate_slots[1].nvme_serial = "EXCHANGED0001".parse().expect("a serial number");
    let slots = puppet.discovers(&town, &output).await;
    let faults: Vec<_> = slots
        .iter()
        .filter_map(|slot| Some((slot.slot_index, slot.fault.clone()?.code)))
        .collect();
    assert_eq!(
        faults,
        [
            (0, Code::SlotDevicesChanged),
            (1, Code::SlotDevicesChanged),
            (2, Code::SlotDevicesChanged)
        ]
    );
    // The exchanged disk is a proposal beside the slot that it came from, and cannot be both.
    let fresh = slots
        .iter()
        .find(|slot| slot.state == SlotState::Candidate)
        .expect("a candidate");
    assert_eq!(
        approve(&town, fresh.id).await.expect_err("shares a GPU"),
        Code::SlotConflict
    );
    assert_eq!(
        Renter::new(&fleet).reserves(6).await.expect_err("five are whole"),
        Code::SlotUnavailable
    );
    let renter = Renter::new(&fleet);
    assert_eq!(renter.reserves(5).await.expect("five are whole").len(), 5);
    assert_eq!(renter.gives_back().await, 5);
    // What is not there cannot be approved as it is; what is there can.
    assert_eq!(
        approve(&town, approved[0].id).await.expect_err("gone"),
        Code::SlotDevicesChanged
    );
    assert!(
        approve(&town, approved[1].id)
            .await
            .expect("with its new ROM")
            .fault
            .is_none()
    );
    // Rejecting the old one makes room for the exchanged disk.
    reasoned(&town, &format!("/v1/slots/{}/reject", approved[2].id))
        .await
        .expect("rejected");
    assert_eq!(
        approve(&town, fresh.id).await.expect("in its place").state,
        SlotState::Free
    );
    // All is as it was: the faults are over, and the rejected slot stays out.
    let mut output = found(puppet.id());
    output.candidate_slots[2].nvme_serial = "EXCHANGED0001".parse().expect("a serial number");
    let slots = puppet.discovers(&town, &output).await;
    assert!(slot(&town, approved[0].id).await.fault.is_none());
    assert_eq!(slot(&town, approved[2].id).await.state, SlotState::Retired);
    assert_eq!(slots.iter().filter(|slot| slot.state == SlotState::Free).count(), 8);
    town.end().await;
}

#[tokio::test]
async fn a_blocked_slot_is_not_approved_and_says_what_to_do() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let mut output = found(puppet.id());
    let blocker = |code, subject: &str, fix: &str| Blocker {
        code,
        subject: subject.to_owned(),
        detail: "as seen".to_owned(),
        fix: fix.to_owned(),
    };
    let gpu = output.candidate_slots[0].pci_address.to_string();
    output.candidate_summary.blockers = vec![blocker(Code::VfioGroupNotViable, &gpu, "bind it")];
    output.candidate_slots[0].schedulable = false;
    let slots = puppet.discovers(&town, &output).await;
    assert_eq!(slots[0].blockers.len(), 1);
    assert!(slots[1].blockers.is_empty());
    assert_eq!(
        slots[0].waiting.as_ref().map(|waiting| waiting.verb.as_str()),
        Some("bind it")
    );
    assert_eq!(
        approve(&town, slots[0].id).await.expect_err("blocked"),
        Code::SlotBlocked
    );
    assert_eq!(
        approve(&town, slots[1].id).await.expect("not blocked").state,
        SlotState::Free
    );
    // What concerns the host concerns every slot; a slot in service has a fault from then on.
    output
        .candidate_summary
        .blockers
        .push(blocker(Code::RebootRequired, "host", "reboot"));
    output
        .candidate_slots
        .iter_mut()
        .for_each(|slot| slot.schedulable = false);
    let slots = puppet.discovers(&town, &output).await;
    assert_eq!((slots[0].blockers.len(), slots[1].blockers.len()), (2, 1));
    assert_eq!(slots[1].fault.as_ref().map(|fault| fault.code), Some(Code::SlotBlocked));
    // A proposal that is no longer made is gone.
    output.candidate_slots.truncate(2);
    assert_eq!(puppet.discovers(&town, &output).await.len(), 2);
    town.end().await;
}
