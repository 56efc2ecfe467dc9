//! What a node says it holds: signed by its executor, newest wins, nothing else counts; and what differs from what the
//! control plane believes is shown with its age and what to do.

use std::path::Path;

use base::testing::eventually;
use dev::simnode::{NodeDir, SimNode};
use dev::slots::approve_all;
use model::dsse::Envelope;
use model::held::{HeldPayload, HeldPower, HeldSlice, Holdings};
use model::id::AllocationId;
use model::key::SigningKey;
use model::node_api::{NodeProbe, NodeProbeSchema, ProbedHop};
use model::state::TaskState;
use wire::http::Response;

use super::renter::Renter;
use super::*;
use crate::abuse::{audited, refused as was_refused};

fn nothing_held(puppet: &Puppet, town: &Town, number: u64) -> HeldPayload {
    HeldPayload {
        aud: puppet.answer.installation,
        node_id: puppet.id(),
        node_epoch: puppet.answer.epoch,
        number,
        at: town.db.clock().now(),
        boot_id: "boot".to_owned(),
        holds: Holdings::default(),
    }
}

fn one(allocation: AllocationId, slots: &[SlotId], power: HeldPower) -> Holdings {
    let slice = HeldSlice {
        allocation_id: allocation,
        op_id: None,
        slots: slots.to_vec(),
        vm_name: Some("ada-vm".parse().expect("a name")),
        power,
        since: None,
        trouble: None,
    };
    Holdings {
        slices: vec![slice],
        ..Holdings::default()
    }
}

/// Posts a list with a probe.
async fn tells(puppet: &Puppet, town: &Town, envelope: Envelope) -> Response {
    let now = town.db.clock().now();
    let probe = NodeProbe {
        schema: NodeProbeSchema::V1,
        at: now,
        agent_version: "0.1.0".to_owned(),
        process_started_at: now,
        executor_connected: true,
        disk: None,
        api: ProbedHop {
            url: String::new(),
            ok: true,
            reason: None,
            took_ms: 1,
        },
        held: Some(envelope),
    };
    puppet.post("self-probe", &probe).await
}

async fn says(puppet: &Puppet, town: &Town, number: u64, holds: Holdings) {
    let list = HeldPayload {
        holds,
        ..nothing_held(puppet, town, number)
    };
    let answer = tells(puppet, town, list.sign(&puppet.keys.result)).await;
    assert!(answer.status.is_success(), "{answer:?}");
}

#[tokio::test]
async fn only_a_newer_list_of_the_nodes_own_executor_counts() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let other = Puppet::of_slices(&town, "b").await;
    let list = nothing_held(&puppet, &town, 7);
    let (own, strange) = (&puppet.keys.result, SigningKey::generate());
    let fresh = list.sign(own);
    // And again: the answer to the first was lost.
    for envelope in [fresh.clone(), fresh] {
        let answer = tells(&puppet, &town, envelope).await;
        assert!(answer.status.is_success(), "{answer:?}");
    }
    let next = HeldPayload {
        number: 8,
        boot_id: "forged".to_owned(),
        ..list.clone()
    };
    let later = HeldPayload {
        at: town.db.clock().now().plus_s(600),
        ..next.clone()
    };
    let refused = [
        (next.sign(&strange), Code::HeldSignatureInvalid),
        (next.sign(&other.keys.result), Code::HeldSignatureInvalid),
        (
            model::dsse::sign(model::held::HELD_TYPE, b"{\"slices\":[]}", &[own]),
            Code::HeldMalformed,
        ),
        (
            HeldPayload {
                number: 6,
                ..next.clone()
            }
            .sign(own),
            Code::HeldStale,
        ),
        (
            HeldPayload {
                number: 7,
                ..next.clone()
            }
            .sign(own),
            Code::HeldStale,
        ),
        (
            HeldPayload {
                node_epoch: 0,
                ..next.clone()
            }
            .sign(own),
            Code::HeldStale,
        ),
        (
            HeldPayload {
                node_id: other.id(),
                ..next.clone()
            }
            .sign(own),
            Code::HeldForeign,
        ),
        (later.sign(own), Code::ClockSkew),
    ];
    for (envelope, code) in refused {
        let error = was_refused(&tells(&puppet, &town, envelope).await, code);
        assert_eq!(audited(&town, &error).await.action, "node.held");
        let shown = town.show_node(puppet.id()).await.held.expect("the first one stands");
        assert_eq!((shown.number, shown.boot_id.as_str()), (7, "boot"));
    }
    town.end().await;
}

#[tokio::test]
async fn what_differs_is_shown_once_two_lists_say_so_and_until_one_does_not() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    let free = puppet.in_service(&town).await;
    let fleet = town.fleet().await;
    // A VM that nobody knows, on a slot that is free.
    let (stranger, id) = (AllocationId::new(), free[7].id);
    let orphan = one(stranger, &[id], HeldPower::Running);
    says(&puppet, &town, 1, orphan.clone()).await;
    let shown = slot(&town, id).await;
    assert!(
        shown.waiting.is_none(),
        "one list may be older than what it is compared with"
    );
    assert_eq!(shown.held.expect("shown").allocation_id, stranger);
    says(&puppet, &town, 2, orphan).await;
    let waiting = slot(&town, id).await.waiting.expect("two lists say so");
    assert!(waiting.reason.starts_with("vm_orphaned"), "{waiting:?}");
    assert!(waiting.verb.contains("slot quarantine"), "{waiting:?}");
    let node = town.show_node(puppet.id()).await;
    let differences = node.held.expect("shown").differences;
    assert_eq!((differences.len(), differences[0].code), (1, Code::VmOrphaned));
    assert!(node.waiting.is_some());
    // And one that should be there and is not.
    let renter = Renter::new(&fleet);
    let rented = renter.reserves(1).await.expect("a slot");
    renter.provisions(puppet.id(), &rented).await.expect("a task");
    let task = puppet.claim().await;
    puppet.ends(&town, &task, |_| {}).await;
    let id = rented[0].slot_id;
    says(&puppet, &town, 3, Holdings::default()).await;
    says(&puppet, &town, 4, one(renter.allocation, &[id], HeldPower::Absent)).await;
    let waiting = slot(&town, id).await.waiting.expect("two lists say so");
    assert!(waiting.reason.starts_with("vm_lost"), "{waiting:?}");
    // It is back, and so is peace.
    says(&puppet, &town, 5, one(renter.allocation, &[id], HeldPower::Off)).await;
    assert!(slot(&town, id).await.waiting.is_none());
    let node = town.show_node(puppet.id()).await;
    assert!(node.waiting.is_none() && node.held.expect("shown").differences.is_empty());
    town.end().await;
}

#[tokio::test]
async fn a_real_executor_tells_what_it_holds() {
    let town = Town::tuned(EXE, |config| {
        config.wait_hold_s = 2;
        config.heartbeat_stale_s = 600;
        config.probe_every_s = 3600;
        config.self_probe_every_s = 1;
    })
    .await;
    let (node, mut sim) = town.node_for("a", Profile::H100x8, NodeMode::Slice).await;
    approve_all(&town.api(), node).await.expect("slots");
    let fleet = town.fleet().await;
    let renter = Renter::new(&fleet);
    let rented = renter.reserves(2).await.expect("two slots");
    let task = renter.provisions(node, &rented).await.expect("a task");
    let view = town.until_task(task, TaskState::is_end).await;
    assert_eq!(view.state, TaskState::Succeeded, "{:?}", view.detail);
    let id = rented[1].slot_id;
    let held = eventually("the slot's VM is told of", async || {
        let view = slot(&town, id).await;
        let running = view.held.clone().filter(|held| held.power == HeldPower::Running);
        running.ok_or_else(|| format!("{:?}", view.held))
    })
    .await;
    assert_eq!(held.allocation_id, renter.allocation);
    assert!(held.since.is_some() && held.op_id.is_some() && held.vm_name.is_some());
    // The host loses power and comes back: so does the VM, as the same instance.
    tokio::task::spawn_blocking(move || sim.stop()).await.expect("stops");
    let dir = NodeDir::new(town.dir().join("a")).expect("its directory");
    let host = Pretend::in_directory(Profile::H100x8, &dir.host()).expect("its host");
    host.reboot().expect("starts");
    assert!(host.snapshot().slicing.machines.values().all(|there| !there.running));
    drop(host);
    let mut sim = SimNode::start(Path::new(EXE), "a", dir, Profile::H100x8);
    let again = eventually("the VM is back after a start of the host", async || {
        let shown = town.show_node(node).await.held.expect("told before");
        let view = slot(&town, id).await.held.expect("told before");
        match shown.boot_id.as_str() == "pretend-1" && view.power == HeldPower::Running {
            true => Ok(view),
            false => Err(format!("{} {view:?}", shown.boot_id)),
        }
    })
    .await;
    assert_eq!((again.op_id, again.since), (held.op_id, held.since));
    let task = renter.releases(node, &rented).await.expect("a task");
    town.until_task(task, TaskState::is_end).await;
    eventually("nothing is held any more", async || {
        let shown = town.show_node(node).await.held.expect("told before");
        match shown.holds == Holdings::default() {
            true => Ok(()),
            false => Err(format!("{:?}", shown.holds)),
        }
    })
    .await;
    tokio::task::spawn_blocking(move || sim.stop()).await.expect("stops");
    town.end().await;
}
