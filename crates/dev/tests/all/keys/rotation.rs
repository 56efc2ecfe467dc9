//! Rotation: under load nothing fails; who is behind is waited for by name, and comes back in one step.

use base::testing::eventually;
use dev::key_rotations::key_rotations;
use dev::town::Town;
use host::pretend::Profile;
use model::api::{TaskView, TrustRotate, TrustView};
use model::id::NodeId;
use model::state::TaskState;
use model::trust::{KeyStatus, Purpose};
use serde_json::json;

use super::{brisk, key_of, trust};
use crate::EXE;

#[tokio::test(flavor = "multi_thread")]
async fn twenty_rotations_under_load_fail_no_task_and_no_poll() {
    let town = Town::tuned(EXE, brisk).await;
    let (a, mut first) = town.node("first", Profile::Cpu).await;
    let (b, mut second) = town.node("second", Profile::Cpu).await;
    let seen = key_rotations(&town, &[(a, &first), (b, &second)], 20)
        .await
        .expect("no task fails");
    println!("{seen:?}");
    assert_eq!((seen.rotations, seen.failed, seen.unanswered), (20, 0, 0), "{seen:?}");
    assert!(seen.tasks >= 40, "there was load: {seen:?}");
    assert!(seen.signers >= 20, "the keys signed in turn: {seen:?}");
    let retired = eventually("replaced keys retire by themselves", async || {
        let view = trust(&town).await;
        let retired = view.keys.iter().filter(|key| key.status == KeyStatus::Retired).count();
        let retiring = view.keys.iter().filter(|key| key.status == KeyStatus::Retiring).count();
        if retiring == 0 { Ok(retired) } else { Err(retiring) }
    })
    .await;
    assert_eq!(retired, 20 * Purpose::ALL.len());
    first.stop();
    second.stop();
    town.end().await;
}

async fn rotate(town: &Town, now: bool) -> TrustView {
    let body = TrustRotate {
        purposes: vec![Purpose::Diag],
        now,
        reason: Some("a drill".to_owned()),
    };
    town.api().post("/v1/trust/rotate", &body).await.expect("accepted")
}

async fn probe(town: &Town, node: NodeId) {
    let path = format!("/v1/nodes/{node}/probe");
    let asked: TaskView = town.api().post(&path, &json!({})).await.expect("asked");
    let ended = town.until_task(asked.id, TaskState::is_end).await;
    assert_eq!(ended.state, TaskState::Succeeded, "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_away_is_waited_for_by_name_and_catches_up_over_several_rotations() {
    let town = Town::tuned(EXE, brisk).await;
    let (node, mut running) = town.node("traveller", Profile::Cpu).await;
    probe(&town, node).await;
    running.agent.hold();

    // It knows the first standby. The next one it has not heard of.
    let first = rotate(&town, false).await;
    assert!(first.rotations.is_empty(), "{first:?}");
    let standby = key_of(&first, Purpose::Diag, KeyStatus::Published);
    let waits = rotate(&town, false).await;
    let [rotation] = waits.rotations.as_slice() else {
        panic!("it waits: {waits:?}")
    };
    assert_eq!(rotation.purpose, Purpose::Diag);
    assert_eq!(rotation.nodes.len(), 1);
    assert_eq!(rotation.nodes[0].name, "traveller");
    assert!(rotation.nodes[0].reason.contains("needs 2"), "{rotation:?}");
    assert_eq!(
        key_of(&waits, Purpose::Diag, KeyStatus::Published),
        standby,
        "nothing moved"
    );
    let known = waits.keys.iter().find(|key| key.keyid == standby).expect("listed");
    assert_eq!((known.known_by, known.nodes), (0, 1));

    // In an emergency nobody waits; the wish is fulfilled by that.
    let moved = rotate(&town, true).await;
    assert!(moved.rotations.is_empty(), "{moved:?}");
    assert_eq!(key_of(&moved, Purpose::Diag, KeyStatus::Active), standby);
    let moved = rotate(&town, true).await;
    // And one that waits, to be finished by the loop.
    let waits = rotate(&town, false).await;
    assert_eq!(waits.rotations.len(), 1);
    let next = key_of(&moved, Purpose::Diag, KeyStatus::Published);

    running.agent.release();
    eventually("the rotation is finished without anybody", async || {
        let view = trust(&town).await;
        let done = view.rotations.is_empty() && key_of(&view, Purpose::Diag, KeyStatus::Active) == next;
        if done {
            Ok(())
        } else {
            Err(format!("{:?}", view.rotations))
        }
    })
    .await;
    probe(&town, node).await;
    eventually("its row tells of the manifest it has", async || {
        let has = town.show_node(node).await.manifest_version;
        if has >= Some(5) {
            Ok(())
        } else {
            Err(format!("{has:?}"))
        }
    })
    .await;
    running.stop();
    town.end().await;
}
