//! What results do to slots: free by proof, quarantined by everything else.

use base::Clock;
use model::id::TaskId;
use model::outcome::{Outcome, Proofs};
use model::proof::{ResetProof, Verdict, WipeMethod, WipeProof};
use model::task::slot::Slot;
use model::value::Nonce;

use super::renter::Renter;
use super::*;

/// The nonce of `Renter::releases`.
pub(super) const RELEASE: Nonce = Nonce::from_bytes([7; 32]);

fn wiped(town: &Town, slot: &Slot, nonce: Nonce) -> WipeProof {
    let now = town.db.clock().now();
    WipeProof {
        slot_id: slot.slot_id,
        nvme_device: slot.nvme_device.clone(),
        serial: slot.nvme_serial.clone(),
        wwn: slot.nvme_wwn.clone(),
        size_bytes: slot.nvme_size_bytes,
        method: WipeMethod::Overwrite,
        tool_rc: 0,
        nonce,
        markers_planted: 1024,
        markers_found: 0,
        signatures_found: 0,
        read_back_bytes: slot.nvme_size_bytes,
        blocks_not_zero: 0,
        started_at: now,
        ended_at: now,
        verdict: Verdict::Clean,
    }
}

pub(super) fn proofs(town: &Town, slot: &Slot, nonce: Nonce) -> Proofs {
    let reset = |pci_address| ResetProof {
        pci_address,
        reset_method: "flr".to_owned(),
        rc: 0,
        config_readable: true,
        power_state: "D0".to_owned(),
        driver: Some("vfio-pci".to_owned()),
        vbios_sha256: None,
        vbios_compared: true,
        kernel_version: "6.1".to_owned(),
        memory_overwritten: false,
    };
    Proofs {
        disk_untouched: false,
        wipe: vec![wiped(town, slot, nonce)],
        reset: slot.devices().map(reset).collect(),
    }
}

/// A provision fails; with these proofs the slot ends here.
struct Case {
    name: &'static str,
    outcome: Outcome,
    code: Code,
    spoil: fn(&mut Option<Proofs>),
    ends: SlotState,
}

const CASES: &[Case] = &[
    Case {
        name: "never began",
        outcome: Outcome::Refused,
        code: Code::GuestNotReady,
        spoil: |p| *p = None,
        ends: SlotState::Free,
    },
    Case {
        name: "clean",
        outcome: Outcome::Failed,
        code: Code::GuestNotReady,
        spoil: |_| {},
        ends: SlotState::Free,
    },
    Case {
        name: "untouched",
        outcome: Outcome::Failed,
        code: Code::GuestNotReady,
        spoil: untouched,
        ends: SlotState::Free,
    },
    Case {
        name: "untouched, but its undo is stuck",
        outcome: Outcome::Failed,
        code: Code::Stuck,
        spoil: untouched,
        ends: SlotState::Quarantined,
    },
    Case {
        name: "untouched, and another's on the host",
        outcome: Outcome::Failed,
        code: Code::SlotLeased,
        spoil: untouched,
        ends: SlotState::Quarantined,
    },
    Case {
        name: "nothing",
        outcome: Outcome::Failed,
        code: Code::GuestNotReady,
        spoil: |p| *p = None,
        ends: SlotState::Quarantined,
    },
    Case {
        name: "no reset",
        outcome: Outcome::Failed,
        code: Code::GuestNotReady,
        spoil: |p| each(p, |p| p.reset.clear()),
        ends: SlotState::Quarantined,
    },
    Case {
        name: "a reset that left the driver",
        outcome: Outcome::Failed,
        code: Code::GuestNotReady,
        spoil: |p| each(p, |p| p.reset[0].driver = None),
        ends: SlotState::Quarantined,
    },
    Case {
        name: "a marker was found",
        outcome: Outcome::Failed,
        code: Code::GuestNotReady,
        spoil: |p| each(p, |p| p.wipe[0].markers_found = 1),
        ends: SlotState::Quarantined,
    },
    Case {
        name: "another nonce",
        outcome: Outcome::Failed,
        code: Code::GuestNotReady,
        spoil: |p| each(p, |p| p.wipe[0].nonce = RELEASE),
        ends: SlotState::Quarantined,
    },
    Case {
        name: "another disk",
        outcome: Outcome::Failed,
        code: Code::GuestNotReady,
        spoil: |p| {
            each(p, |p| {
                p.wipe[0].serial = "S6CKNT0W999999".parse().expect("a serial number")
            })
        },
        ends: SlotState::Quarantined,
    },
    Case {
        name: "another slot's",
        outcome: Outcome::Failed,
        code: Code::GuestNotReady,
        spoil: |p| each(p, |p| p.wipe[0].slot_id = SlotId::new()),
        ends: SlotState::Quarantined,
    },
];

pub(super) fn untouched(proofs: &mut Option<Proofs>) {
    *proofs = Some(Proofs {
        disk_untouched: true,
        wipe: vec![],
        reset: vec![],
    });
}

fn each(proofs: &mut Option<Proofs>, change: fn(&mut Proofs)) {
    proofs.iter_mut().for_each(change);
}

#[tokio::test]
async fn a_failed_provision_frees_its_slot_only_by_proof() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let fleet = town.fleet().await;
    for case in CASES {
        puppet.in_service(&town).await;
        let renter = Renter::new(&fleet);
        let slots = renter.reserves(1).await.expect("a slot is free");
        let task = renter.provisions(puppet.id(), &slots).await.expect(case.name);
        assert_eq!(slot(&town, slots[0].slot_id).await.dirty_op, None, "nobody has it yet");
        let offered = puppet.claim().await;
        let claimed = slot(&town, slots[0].slot_id).await;
        assert_eq!(
            (claimed.state, claimed.dirty_op.is_some()),
            (SlotState::Leased, true),
            "{}",
            case.name
        );
        puppet
            .ends(&town, &offered, |result| {
                result.outcome = case.outcome;
                result.code = Some(case.code);
                result.output = None;
                result.proofs = Some(proofs(&town, &slots[0], Nonce::of_task(task)));
                if case.outcome == Outcome::Refused {
                    result.started_at = None;
                }
                (case.spoil)(&mut result.proofs);
            })
            .await;
        let after = slot(&town, slots[0].slot_id).await;
        assert_eq!(after.state, case.ends, "{}", case.name);
        assert_eq!(after.allocation_id, None, "{}", case.name);
        let free = case.ends == SlotState::Free;
        assert_eq!(
            (after.dirty_op.is_none(), after.quarantine.is_none()),
            (free, free),
            "{}",
            case.name
        );
        if !free {
            let refused = verb::<SlotView>(&town, &format!("/v1/slots/{}/approve", after.id)).await;
            assert_eq!(refused.expect_err(case.name), Code::SlotQuarantined);
            rewipe(&town, &puppet, &slots[0]).await;
        }
    }
    town.end().await;
}

/// Whoever refuses what we did sign as if it were a stranger's keeps no journal of that, and may begin after all. When it
/// is believed, it can begin no more; but it may have.
#[tokio::test]
async fn a_refusal_by_hearsay_frees_no_slot() {
    let town = Town::at(EXE, Clock::fixed(Clock::real().now()), |config| {
        config.wait_hold_s = 2;
        config.heartbeat_stale_s = 1_000_000;
        config.probe_every_s = 1_000_000;
    })
    .await;
    let puppet = Puppet::of_slices(&town, "hearsay").await;
    puppet.in_service(&town).await;
    let renter = Renter::new(&town.fleet().await);
    let slots = renter.reserves(1).await.expect("a slot is free");
    renter.provisions(puppet.id(), &slots).await.expect("asked for");
    let offered = puppet.claim().await;
    town.db.clock().advance(1_141_000);
    puppet
        .ends(&town, &offered, |result| {
            (result.outcome, result.code) = (Outcome::Refused, Some(Code::SignatureInvalid));
            (result.op_id, result.started_at, result.output) = (None, None, None);
        })
        .await;
    let after = slot(&town, slots[0].slot_id).await;
    assert_eq!((after.state, after.dirty_op.is_some()), (SlotState::Quarantined, true));
    town.end().await;
}

/// Results may overtake each other on their way: what a host did before it wiped is over with the wipe, and what it did
/// afterwards is not. An untouched disk is no wipe.
#[tokio::test]
async fn a_provision_that_ends_late_takes_no_wipe_back_and_ends_no_quarantine() {
    let town = Town::at(EXE, Clock::fixed(Clock::real().now()), |config| {
        config.wait_hold_s = 2;
        config.heartbeat_stale_s = 1_000_000;
        config.probe_every_s = 1_000_000;
    })
    .await;
    let puppet = Puppet::of_slices(&town, "late").await;
    puppet.in_service(&town).await;
    let fleet = town.fleet().await;
    let given = async || {
        let renter = Renter::new(&fleet);
        let slots = renter.reserves(1).await.expect("a slot is free");
        renter.provisions(puppet.id(), &slots).await.expect("asked for");
        let offered = puppet.claim().await;
        renter.is_put_out().await;
        (slots[0].clone(), offered)
    };
    let cancelled = |result: &mut ResultPayload, untouched| {
        (result.outcome, result.code) = (Outcome::Cancelled, Some(Code::TaskCancelled));
        result.output = None;
        result.proofs = Some(Proofs {
            disk_untouched: untouched,
            wipe: Vec::new(),
            reset: Vec::new(),
        });
    };
    // Somebody else has all of them by the time that its own wipe is heard of.
    let (wanted, offered) = given().await;
    rewipe(&town, &puppet, &wanted).await;
    let next = Renter::new(&fleet);
    assert_eq!(next.reserves(8).await.expect("all are free").len(), 8);
    puppet
        .ends(&town, &offered, |result| {
            cancelled(result, false);
            result.proofs = Some(proofs(&town, &wanted, Nonce::of_task(offered.task_id)));
        })
        .await;
    let after = slot(&town, wanted.slot_id).await;
    assert_eq!(
        (after.state, after.allocation_id),
        (SlotState::Reserved, Some(next.allocation))
    );
    next.gives_back().await;
    for (later, ends) in [(0, SlotState::Free), (1000, SlotState::Quarantined)] {
        let (wanted, offered) = given().await;
        let before = puppet.result(&offered, town.db.clock().now()).journal_seq;
        rewipe(&town, &puppet, &wanted).await;
        puppet
            .ends(&town, &offered, |result| {
                cancelled(result, false);
                result.journal_seq = before + later;
            })
            .await;
        assert_eq!(slot(&town, wanted.slot_id).await.state, ends, "{later}");
    }
    let (wanted, offered) = given().await;
    puppet.ends(&town, &offered, |result| cancelled(result, true)).await;
    assert_eq!(slot(&town, wanted.slot_id).await.state, SlotState::Quarantined);
    rewipe(&town, &puppet, &wanted).await;
    town.end().await;
}

/// What failed by its host's fault would fail the next tenant, too: it waits until somebody has looked, and somebody
/// is asked to at once.
#[tokio::test]
async fn a_slot_whose_host_was_at_fault_is_looked_at_before_anybody_gets_it() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let fleet = town.fleet().await;
    let all = u32::try_from(puppet.in_service(&town).await.len()).expect("eight");
    let cases = [
        (Code::VfioGroupBusy, true),
        (Code::DiskGuard, true),
        (Code::GuestNotReady, false),
        (Code::ImageUnavailable, false),
    ];
    for (code, at_fault) in cases {
        let renter = Renter::new(&fleet);
        let slots = renter.reserves(1).await.expect("a slot is free");
        let id = slots[0].slot_id;
        renter.provisions(puppet.id(), &slots).await.expect("is asked for");
        let offered = puppet.claim().await;
        puppet
            .ends(&town, &offered, |result| {
                result.outcome = Outcome::Failed;
                result.code = Some(code);
                result.detail = Some("held by qemu".to_owned());
                result.output = None;
                untouched(&mut result.proofs);
            })
            .await;
        let after = slot(&town, id).await;
        assert_eq!(after.state, SlotState::Free, "{code}");
        assert_eq!(after.fault.map(|fault| fault.code), at_fault.then_some(code), "{code}");
        if at_fault {
            let waiting = after.waiting.expect("it says why");
            assert!(waiting.reason.contains("held by qemu"), "{waiting:?}");
            assert_eq!(waiting.verb, "gpuaas node discover a");
            let refused = Renter::new(&fleet).reserves(all).await;
            assert_eq!(refused.expect_err("one of them is not given"), Code::SlotUnavailable);
            puppet.finds(&town, &found(puppet.id())).await;
            assert_eq!(slot(&town, id).await.fault, None, "{code}: it is as it was approved");
        }
        let rest = Renter::new(&fleet);
        rest.reserves(all).await.expect("all of them again");
        rest.gives_back().await;
    }
    town.end().await;
}

/// The operator's way out of quarantine, with an honest executor below.
async fn rewipe(town: &Town, puppet: &Puppet, wanted: &Slot) {
    let path = format!("/v1/slots/{}/rewipe", wanted.slot_id);
    let task: model::api::TaskView = verb(town, &path).await.expect("is wiped again");
    let again: model::api::TaskView = verb(town, &path).await.expect("is under way");
    assert_eq!(task.id, again.id, "asking twice is asking once");
    let offered = puppet.claim().await;
    let nonce = nonce_of(&offered);
    puppet
        .ends(town, &offered, |result| {
            result.proofs = Some(proofs(town, wanted, nonce))
        })
        .await;
    assert_eq!(slot(town, wanted.slot_id).await.state, SlotState::Free);
}

fn nonce_of(offered: &OfferedTask) -> Nonce {
    let bytes = offered.envelope.payload_unverified().expect("base64");
    let payload: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    payload["params"]["release_nonce"]
        .as_str()
        .expect("a nonce")
        .parse()
        .expect("a nonce")
}

#[tokio::test]
async fn a_release_frees_by_proof_and_its_failure_quarantines() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let fleet = town.fleet().await;
    puppet.in_service(&town).await;
    let moves_in = async || -> (Renter, Vec<Slot>) {
        let renter = Renter::new(&fleet);
        let slots = renter.reserves(1).await.expect("a slot is free");
        renter.provisions(puppet.id(), &slots).await.expect("is made");
        let offered = puppet.claim().await;
        puppet.ends(&town, &offered, |_| {}).await;
        assert_eq!(slot(&town, slots[0].slot_id).await.state, SlotState::Leased);
        assert_eq!(renter.gives_back().await, 0, "what is used is not given back like that");
        (renter, slots)
    };
    let leaves = async |renter: &Renter, slots: &[Slot], change: fn(&mut ResultPayload)| -> (SlotView, TaskId) {
        let task = renter.releases(puppet.id(), slots).await.expect("is released");
        assert_eq!(slot(&town, slots[0].slot_id).await.state, SlotState::Releasing);
        let offered = puppet.claim().await;
        puppet
            .ends(&town, &offered, |result| {
                result.proofs = Some(proofs(&town, &slots[0], RELEASE));
                change(result);
            })
            .await;
        (slot(&town, slots[0].slot_id).await, task)
    };
    let (renter, slots) = moves_in().await;
    let foreign = Renter::new(&fleet).releases(puppet.id(), &slots).await;
    assert_eq!(foreign.expect_err("another's"), Code::StateConflict);
    let (view, task) = leaves(&renter, &slots, |_| {}).await;
    assert_eq!(
        (view.state, view.dirty_op, view.wiped_at.is_some()),
        (SlotState::Free, None, true)
    );
    let page: model::api::Page<model::api::SlotProofView> = town
        .api()
        .get(&format!("/v1/slots/{}/proofs", view.id))
        .await
        .expect("its proofs");
    assert!(page.items.iter().all(|proof| proof.clean && proof.task_id == task));
    assert_eq!(page.items.iter().filter(|proof| proof.kind == "wipe").count(), 1);
    // Succeeded without proof, and failed with one: neither is enough.
    for spoil in [
        (|result| result.proofs = None) as fn(&mut ResultPayload),
        |result| {
            result
                .proofs
                .iter_mut()
                .for_each(|p| p.wipe[0].verdict = Verdict::Dirty)
        },
        |result| {
            result.outcome = Outcome::Failed;
            result.code = Some(Code::AbsenceNotProved);
        },
    ] {
        let (renter, slots) = moves_in().await;
        let (view, _) = leaves(&renter, &slots, spoil).await;
        assert_eq!((view.state, view.dirty_op.is_some()), (SlotState::Quarantined, true));
        rewipe(&town, &puppet, &slots[0]).await;
    }
    // Refused or too late: nothing was begun, so the VM runs on, and it is its tenant's until a release was done.
    for outcome in [Outcome::Refused, Outcome::Expired] {
        let (renter, slots) = moves_in().await;
        let task = renter.releases(puppet.id(), &slots).await.expect("is released");
        let offered = puppet.claim().await;
        puppet
            .ends(&town, &offered, |result| {
                (result.outcome, result.code) = (outcome, Some(Code::ParamsInvalid));
                (result.started_at, result.output) = (None, None);
            })
            .await;
        let view = slot(&town, slots[0].slot_id).await;
        assert_eq!(view.state, SlotState::Releasing, "{outcome:?}");
        assert_eq!(view.allocation_id, Some(renter.allocation), "{outcome:?}");
        let (view, again) = leaves(&renter, &slots, |_| {}).await;
        assert_ne!(task, again);
        assert_eq!((view.state, view.allocation_id), (SlotState::Free, None), "{outcome:?}");
    }
    // What an operator does not trust goes the same way, though nobody ever had it.
    let free = super::slots(&town, puppet.id()).await.pop().expect("a slot");
    reasoned(&town, &format!("/v1/slots/{}/quarantine", free.id))
        .await
        .expect("quarantined");
    let row = fleet::slot::store::get(fleet.app.db.read(), free.id)
        .await
        .expect("readable")
        .expect("there");
    rewipe(&town, &puppet, &row.as_signed().expect("well-formed")).await;
    town.end().await;
}

#[tokio::test]
async fn a_task_is_signed_only_for_slots_that_its_allocation_holds_as_approved() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let fleet = town.fleet().await;
    puppet.in_service(&town).await;
    let (ada, eve) = (Renter::new(&fleet), Renter::new(&fleet));
    let slots = ada.reserves(1).await.expect("a slot");
    assert_eq!(
        eve.provisions(puppet.id(), &slots).await.expect_err("not hers"),
        Code::StateConflict
    );
    assert_eq!(
        eve.releases(puppet.id(), &slots).await.expect_err("not hers"),
        Code::StateConflict
    );
    let mut other = slots.clone();
    other[0].nvme_serial = "S6CKNT0W000007".parse().expect("a serial number");
    assert_eq!(
        ada.provisions(puppet.id(), &other).await.expect_err("another disk"),
        Code::SlotDevicesChanged
    );
    other = slots.clone();
    other[0].slot_id = SlotId::new();
    assert_eq!(
        ada.provisions(puppet.id(), &other).await.expect_err("no such slot"),
        Code::NotFound
    );
    // A row that somebody slipped past all that is not handed out while the slot is not held for it.
    assert!(puppet.wait().await.is_empty());
    town.end().await;
}
