//! A tenant's account comes and goes, through the whole executor.

use host::pretend::{Account, Fault, Leftover, Profile, State};
use model::envelope::TaskPayload;
use model::id::AllocationId;
use model::outcome::{Outcome, ResultPayload};
use model::signal::Code;
use model::task::{Task, deprovision_user, provision_user};
use model::value::Pci;

use crate::place::Place;

pub(crate) const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

pub(crate) fn provision(place: &Place, allocation_id: AllocationId) -> TaskPayload {
    place.house.payload(&Task::ProvisionUser(provision_user::Params {
        allocation_id,
        username: "ada".parse().expect("a name"),
        uid: 20_001.try_into().expect("a uid"),
        ssh_public_keys: vec![KEY.parse().expect("a key")],
        gpu_access: true,
    }))
}

pub(crate) fn deprovision(place: &Place, allocation_id: AllocationId) -> TaskPayload {
    place.house.payload(&Task::DeprovisionUser(deprovision_user::Params {
        allocation_id,
        username: "ada".parse().expect("a name"),
        uid: 20_001.try_into().expect("a uid"),
        remove_home: true,
    }))
}

fn output<T: serde::de::DeserializeOwned>(result: &ResultPayload) -> T {
    serde_json::from_str(result.output.as_ref().expect("an output").get()).expect("typed")
}

#[test]
fn a_tenant_comes_and_goes_without_a_trace() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let clean = place.pretend.snapshot();
    let allocation = AllocationId::new();
    let result = agent.run(&place, &provision(&place, allocation));
    assert_eq!(result.outcome, Outcome::Succeeded, "{:?}", result.detail);
    let made: provision_user::Output = output(&result);
    assert_eq!((made.home.as_str(), made.keys_installed), ("/home/ada", 1));
    assert!(made.verified.user && made.verified.home && made.verified.keys);
    assert_eq!(place.pretend.snapshot().keys["ada"], [KEY]);
    assert_eq!(result.timings.len(), 5);

    place.pretend.meddle(|state| {
        state
            .leftovers
            .insert(20_001, [Leftover::Process, Leftover::Cron, Leftover::File].into());
    });
    let result = agent.run(&place, &deprovision(&place, allocation));
    assert_eq!(result.outcome, Outcome::Succeeded, "{:?}", result.detail);
    let gone: deprovision_user::Output = output(&result);
    assert_eq!((gone.processes_killed, gone.absent.left().len()), (1, 0));
    assert_eq!(place.pretend.snapshot(), clean);
}

#[test]
fn what_fails_half_way_is_taken_back() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let clean = place.pretend.snapshot();
    // The look asks twice, every other step once.
    for (call, steps) in [1, 1, 2, 3, 4, 5].into_iter().enumerate() {
        place.pretend.set_fuse(call, host::pretend::Blow::After);
        let result = agent.run(&place, &provision(&place, AllocationId::new()));
        assert!(place.pretend.fuse_blown());
        assert_eq!(
            (result.outcome, result.code),
            (Outcome::Failed, Some(Code::HostCommandFailed))
        );
        assert_eq!(result.undone.len(), steps, "the failed step is undone too");
        assert_eq!(place.pretend.snapshot(), clean);
    }
}

#[test]
fn an_account_of_the_host_is_left_alone() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let theirs = Account {
        uid: 1000,
        owner: None,
        gpu_access: false,
        locked: false,
    };
    place.pretend.meddle(|state| {
        state.accounts.insert("ada".to_owned(), theirs);
    });
    let before = place.pretend.snapshot();
    for payload in [
        provision(&place, AllocationId::new()),
        deprovision(&place, AllocationId::new()),
    ] {
        let result = agent.run(&place, &payload);
        assert_eq!(
            (result.outcome, result.code),
            (Outcome::Failed, Some(Code::UserRefused))
        );
        assert_eq!(place.pretend.snapshot(), before);
    }
}

#[test]
fn absence_that_cannot_be_proved_is_a_failure() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let allocation = AllocationId::new();
    agent.run(&place, &provision(&place, allocation));
    place.pretend.meddle(|state| {
        state.leftovers.insert(20_001, [Leftover::Ipc].into());
        state.immovable.insert(Leftover::Ipc);
    });
    let result = agent.run(&place, &deprovision(&place, allocation));
    assert_eq!(
        (result.outcome, result.code),
        (Outcome::Failed, Some(Code::AbsenceNotProved))
    );
    assert!(
        result.detail.is_some_and(|detail| detail.contains("ipc")),
        "it says what is left"
    );
    assert!(result.undone.is_empty());
}

#[test]
fn a_host_with_gpus_is_given_up_with_a_reset_proof_for_each() {
    let place = Place::start(Profile::H100x8);
    let mut agent = place.connect();
    let allocation = AllocationId::new();
    agent.run(&place, &provision(&place, allocation));
    let result = agent.run(&place, &deprovision(&place, allocation));
    assert_eq!(result.outcome, Outcome::Succeeded, "{:?}", result.detail);
    let gone: deprovision_user::Output = output(&result);
    assert_eq!(gone.reset_proofs.len(), 8);
    assert!(
        gone.reset_proofs
            .iter()
            .all(|proof| proof.rc == 0 && proof.config_readable)
    );
}

#[test]
fn a_host_with_gpus_is_not_given_up_without_a_reset_proof() {
    for (spoil, code, touched) in [
        // One that the kernel knows no way to reset, and one whose reset fails.
        (
            (|state: &mut State, pci| {
                let function = state.hardware.functions.get_mut(&pci).expect("a GPU");
                function.reset_methods.clear();
            }) as fn(&mut State, Pci),
            Code::ResetProofUnavailable,
            false,
        ),
        (
            |state, pci| {
                state.hardware.faults.insert(Fault::ResetFails(pci));
            },
            Code::GpuResetFailed,
            true,
        ),
    ] {
        let place = Place::start(Profile::H100x8);
        let mut agent = place.connect();
        let allocation = AllocationId::new();
        agent.run(&place, &provision(&place, allocation));
        place.pretend.meddle(|state| {
            let gpu = state.hardware.functions.values().find(|function| function.is_gpu());
            let pci = gpu.expect("a GPU").pci;
            spoil(state, pci);
        });
        let before = place.pretend.snapshot();
        let result = agent.run(&place, &deprovision(&place, allocation));
        assert_eq!((result.outcome, result.code), (Outcome::Failed, Some(code)));
        assert_eq!(place.pretend.snapshot() != before, touched);
        assert!(
            place.pretend.snapshot().accounts.contains_key("ada"),
            "its uid is still somebody's"
        );
    }
}

#[test]
fn an_older_task_cannot_undo_a_newer_one() {
    let place = Place::start(Profile::Cpu);
    let mut agent = place.connect();
    let allocation = AllocationId::new();
    let older = provision(&place, allocation);
    let newer = deprovision(&place, allocation);
    assert_eq!(agent.run(&place, &newer).outcome, Outcome::Succeeded);
    let result = agent.run(&place, &older);
    assert_eq!(
        (result.outcome, result.code),
        (Outcome::Refused, Some(Code::TaskSuperseded))
    );
    assert!(place.pretend.snapshot().accounts.is_empty());
}
