//! Looks that are older than what they are about, and looks that come to nothing.

use base::testing::eventually;
use model::api::TaskView;
use model::id::TaskId;
use model::outcome::Outcome;
use model::task::slot::Slot;

use super::landing::{RELEASE, proofs, untouched};
use super::renter::Renter;
use super::*;
use crate::abuse::sql;

/// Has this one, whatever else is offered with it.
async fn takes(puppet: &Puppet, id: TaskId) -> OfferedTask {
    eventually("the task is offered", async || {
        let offered = puppet.wait().await.into_iter().find(|task| task.task_id == id);
        offered.ok_or("not among them")
    })
    .await
}

/// A discovery that its node has begun.
async fn begins_to_look(town: &Town, puppet: &Puppet) -> OfferedTask {
    let path = format!("/v1/nodes/{}/discover", puppet.id());
    let asked: TaskView = verb(town, &path).await.expect("is asked for");
    takes(puppet, asked.id).await
}

/// A provision ends by its host's fault, and nothing was touched.
async fn fails(town: &Town, puppet: &Puppet, task: &OfferedTask) {
    puppet
        .ends(town, task, |result| {
            (result.outcome, result.code) = (Outcome::Failed, Some(Code::VfioGroupBusy));
            result.output = None;
            untouched(&mut result.proofs);
        })
        .await;
}

async fn sees(town: &Town, puppet: &Puppet, task: &OfferedTask, output: &Output) {
    puppet
        .ends(town, task, |result| {
            result.output = Some(to_raw_value(output).expect("JSON"))
        })
        .await;
}

async fn moves_in(town: &Town, puppet: &Puppet, renter: &Renter) -> Vec<Slot> {
    let slots = renter.reserves(1).await.expect("a slot is free");
    let task = renter.provisions(puppet.id(), &slots).await.expect("is made");
    let offered = takes(puppet, task).await;
    puppet.ends(town, &offered, |_| {}).await;
    slots
}

/// Whoever looked before the failure cannot have seen what it came from.
#[tokio::test]
async fn a_look_that_began_before_a_failure_does_not_end_the_blame() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let fleet = town.fleet().await;
    puppet.in_service(&town).await;
    let renter = Renter::new(&fleet);
    let slots = renter.reserves(1).await.expect("a slot is free");
    let id = slots[0].slot_id;
    let task = renter.provisions(puppet.id(), &slots).await.expect("is asked for");
    let offered = takes(&puppet, task).await;
    let looking = begins_to_look(&town, &puppet).await;
    fails(&town, &puppet, &offered).await;
    let all_well = found(puppet.id());
    sees(&town, &puppet, &looking, &all_well).await;
    let fault = slot(&town, id).await.fault.map(|fault| fault.code);
    assert_eq!(fault, Some(Code::VfioGroupBusy), "that look was older");
    puppet.finds(&town, &all_well).await;
    assert_eq!(slot(&town, id).await.fault, None, "this one was not");
    town.end().await;
}

/// While a guest has the GPU nobody can read its ROM; that is no fault of a slot that is free by now.
#[tokio::test]
async fn a_look_that_began_before_a_release_faults_nobody() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let fleet = town.fleet().await;
    puppet.in_service(&town).await;
    let renter = Renter::new(&fleet);
    let slots = moves_in(&town, &puppet, &renter).await;
    let looking = begins_to_look(&town, &puppet).await;
    let release = renter.releases(puppet.id(), &slots).await.expect("is released");
    let offered = takes(&puppet, release).await;
    puppet
        .ends(&town, &offered, |result| {
            result.proofs = Some(proofs(&town, &slots[0], RELEASE))
        })
        .await;
    let mut in_use = found(puppet.id());
    let its = |gpu: &&mut model::task::topology_discover::GpuDevice| gpu.pci_address == slots[0].pci_address;
    in_use.gpu_devices.iter_mut().find(its).expect("its GPU").vbios_sha256 = None;
    sees(&town, &puppet, &looking, &in_use).await;
    let free = slot(&town, slots[0].slot_id).await;
    assert_eq!((free.state, free.fault), (SlotState::Free, None));
    // What was left open is looked at again, and then it counts.
    puppet.finds(&town, &in_use).await;
    let fault = slot(&town, slots[0].slot_id).await.fault.map(|fault| fault.code);
    assert_eq!(fault, Some(Code::SlotDevicesChanged));
    town.end().await;
}

/// What was looked at in vain is looked at again by itself, but not at once and not for ever as often.
#[tokio::test]
async fn a_look_that_comes_to_nothing_is_followed_by_another() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let fleet = town.fleet().await;
    puppet.in_service(&town).await;
    let renter = Renter::new(&fleet);
    let slots = renter.reserves(1).await.expect("a slot is free");
    let task = renter.provisions(puppet.id(), &slots).await.expect("is asked for");
    fails(&town, &puppet, &takes(&puppet, task).await).await;
    let passes = async |seconds: u32| {
        let past = format!("interval '{seconds} seconds'");
        let slots = format!("update slot set fault_since = fault_since - {past} where fault is not null");
        sql(&town, &slots).await;
        let tasks = "update task set created_at = created_at - X, ended_at = ended_at - X where ended_at is not null";
        sql(&town, &tasks.replace('X', &past)).await;
        fleet::work::due_looks(&fleet).await.expect("looked for");
    };
    // So many seconds are enough, and half of them are not; each time it takes longer.
    for enough in [70, 130, 250] {
        let look = puppet.claim().await;
        puppet
            .ends(&town, &look, |result| {
                (result.outcome, result.code) = (Outcome::Failed, Some(Code::Internal));
                result.output = None;
            })
            .await;
        passes(enough / 2).await;
        assert!(puppet.wait().await.is_empty(), "not before {enough} s");
        passes(enough / 2).await;
    }
    puppet.finds(&town, &found(puppet.id())).await;
    assert_eq!(slot(&town, slots[0].slot_id).await.fault, None, "in service again");
    passes(100_000).await;
    assert!(puppet.wait().await.is_empty(), "there is nothing left to look for");
    town.end().await;
}
