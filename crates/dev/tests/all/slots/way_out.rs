//! Slots that would stand still for ever, and how they get out.

use base::testing::eventually;
use model::api::{TaskView, Waiting};
use model::outcome::{Outcome, Proofs};
use model::proof::ResetProof;
use model::value::Pci;

use super::renter::Renter;
use super::*;
use crate::abuse::sql;

fn reset(pci: Pci) -> ResetProof {
    ResetProof {
        pci_address: pci,
        reset_method: "flr".to_owned(),
        rc: 0,
        config_readable: true,
        power_state: "D0".to_owned(),
        driver: Some("vfio-pci".to_owned()),
        vbios_sha256: None,
        vbios_compared: false,
        kernel_version: "6.8".to_owned(),
        memory_overwritten: false,
    }
}

/// A loop of the town's own may have taken the task first, and be about to say so.
async fn waits(town: &Town, id: SlotId, as_wanted: fn(&Waiting) -> bool) {
    eventually("the slot waits as it should", async || {
        let waiting = slot(town, id).await.waiting.expect("why");
        if as_wanted(&waiting) { Ok(()) } else { Err(waiting) }
    })
    .await;
}

#[tokio::test]
async fn what_was_reserved_for_a_task_that_never_came_is_given_back() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    puppet.in_service(&town).await;
    let fleet = town.fleet().await;
    let renter = Renter::new(&fleet);
    let rented = renter.reserves(2).await.expect("two slots");
    let id = rented[0].slot_id;
    let path = format!("/v1/slots/{id}/unreserve");
    // A moment ago: somebody is about to ask for it, and nobody is told to take it from them.
    let waiting = slot(&town, id).await.waiting.expect("why");
    assert!(waiting.verb.contains("allocation show"), "{waiting:?}");
    assert_eq!(
        reasoned(&town, &path).await.expect_err("too early"),
        Code::StateConflict
    );
    sql(
        &town,
        "update slot set state_since = state_since - interval '301 seconds' where state = 'reserved'",
    )
    .await;
    let waiting = slot(&town, id).await.waiting.expect("why");
    assert!(waiting.verb.contains("slot unreserve"), "{waiting:?}");
    renter.provisions(puppet.id(), &rented).await.expect("a task");
    let waiting = slot(&town, id).await.waiting.expect("why");
    assert!(waiting.verb.starts_with("gpuaas task show"), "{waiting:?}");
    assert_eq!(
        reasoned(&town, &path).await.expect_err("on its way"),
        Code::StateConflict
    );
    // Nobody took it in time.
    sql(
        &town,
        "update task set start_by = now() - interval '1 hour' where state = 'queued'",
    )
    .await;
    fleet::work::overdue_tasks(&fleet).await.expect("looked at");
    waits(&town, id, |waiting| waiting.reason.contains("expired")).await;
    reasoned(&town, &path).await.expect("given back");
    assert_eq!(states(&slots(&town, puppet.id()).await), [SlotState::Free; 8]);
    // What an earlier tenant's task came to says nothing about the next one.
    Renter::new(&fleet).reserves(2).await.expect("the same two");
    let waiting = slot(&town, id).await.waiting.expect("why");
    assert!(waiting.verb.contains("allocation show"), "{waiting:?}");
    town.end().await;
}

#[tokio::test]
async fn a_release_that_came_to_nothing_ends_in_quarantine_and_a_wipe() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    puppet.in_service(&town).await;
    let fleet = town.fleet().await;
    let renter = Renter::new(&fleet);
    let rented = renter.reserves(1).await.expect("a slot");
    let id = rented[0].slot_id;
    renter.provisions(puppet.id(), &rented).await.expect("a task");
    let task = puppet.claim().await;
    puppet.ends(&town, &task, |_| {}).await;
    renter.releases(puppet.id(), &rented).await.expect("a task");
    let path = format!("/v1/slots/{id}/quarantine");
    assert_eq!(
        reasoned(&town, &path).await.expect_err("on its way"),
        Code::StateConflict
    );
    sql(
        &town,
        "update task set start_by = now() - interval '1 hour' where state = 'queued'",
    )
    .await;
    fleet::work::overdue_tasks(&fleet).await.expect("looked at");
    waits(&town, id, |waiting| waiting.verb.contains("slot quarantine")).await;
    reasoned(&town, &path).await.expect("in quarantine");
    let _: TaskView = verb(&town, &format!("/v1/slots/{id}/rewipe")).await.expect("a wipe");
    town.end().await;
}

#[tokio::test]
async fn a_dead_disk_is_given_up_and_never_used_again() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    puppet.in_service(&town).await;
    let fleet = town.fleet().await;
    let renter = Renter::new(&fleet);
    let rented = renter.reserves(1).await.expect("a slot");
    let (id, dead) = (rented[0].slot_id, rented[0].clone());
    renter.provisions(puppet.id(), &rented).await.expect("a task");
    let task = puppet.claim().await;
    puppet.ends(&town, &task, |_| {}).await;
    // Its release finds the disk dead: without a reset at first, then with one.
    renter.releases(puppet.id(), &rented).await.expect("a task");
    let task = puppet.claim().await;
    puppet
        .ends(&town, &task, |result| {
            (result.outcome, result.code) = (Outcome::Failed, Some(Code::DiskMissing));
            result.output = None;
        })
        .await;
    assert_eq!(slot(&town, id).await.state, SlotState::Quarantined);
    let path = format!("/v1/slots/{id}/disk-gone");
    assert_eq!(
        reasoned(&town, &path).await.expect_err("nobody looked"),
        Code::DiskStillThere
    );
    puppet.discovers(&town, &found(puppet.id())).await;
    assert_eq!(
        reasoned(&town, &path).await.expect_err("it is there"),
        Code::DiskStillThere
    );
    // Another disk in its place.
    let mut output = found(puppet.id());
    for disk in output
        .nvme_devices
        .iter_mut()
        .filter(|disk| disk.serial == dead.nvme_serial)
    {
        disk.serial = "FRESH0001".parse().expect("a serial number");
    }
    for candidate in output
        .candidate_slots
        .iter_mut()
        .filter(|s| s.nvme_serial == dead.nvme_serial)
    {
        candidate.nvme_serial = "FRESH0001".parse().expect("a serial number");
    }
    let proposed = puppet.discovers(&town, &output).await;
    let fresh = proposed
        .iter()
        .find(|slot| slot.state == SlotState::Candidate)
        .expect("proposed")
        .id;
    assert_eq!(
        approve(&town, fresh).await.expect_err("shares a GPU"),
        Code::SlotConflict
    );
    assert_eq!(reasoned(&town, &path).await.expect_err("not reset"), Code::WipeUnproved);
    let _: TaskView = verb(&town, &format!("/v1/slots/{id}/rewipe")).await.expect("a wipe");
    let task = puppet.claim().await;
    puppet
        .ends(&town, &task, |result| {
            (result.outcome, result.code) = (Outcome::Failed, Some(Code::DiskMissing));
            result.output = None;
            result.proofs = Some(Proofs {
                disk_untouched: false,
                wipe: Vec::new(),
                reset: dead.devices().map(reset).collect(),
            });
        })
        .await;
    // The wipe may have ended after the look; a younger one decides.
    puppet.discovers(&town, &output).await;
    reasoned(&town, &path).await.expect("given up");
    assert_eq!(
        approve(&town, fresh).await.expect("in its place").state,
        SlotState::Free
    );
    // It stays what it is: in quarantine, dirty, and its disk nobody's.
    let view = slot(&town, id).await;
    assert_eq!(view.state, SlotState::Quarantined);
    assert!(view.dirty_op.is_some());
    let again: Result<TaskView, Code> = verb(&town, &format!("/v1/slots/{id}/rewipe")).await;
    assert_eq!(again.expect_err("given up"), Code::StateConflict);
    let mut output = output.clone();
    let last = output.candidate_slots.last_mut().expect("a candidate");
    (last.nvme_serial, last.nvme_wwn) = (dead.nvme_serial.clone(), dead.nvme_wwn.clone());
    let back = puppet.discovers(&town, &output).await;
    let risen = back
        .iter()
        .find(|slot| slot.state == SlotState::Candidate)
        .expect("proposed");
    reasoned(&town, &format!("/v1/slots/{}/reject", back[7].id)).await.ok();
    assert_eq!(
        approve(&town, risen.id).await.expect_err("its disk is not clean"),
        Code::SlotConflict
    );
    town.end().await;
}
