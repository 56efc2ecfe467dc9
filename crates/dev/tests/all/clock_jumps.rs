//! The control plane's clock jumps by ten minutes under load, forward and back, while that of the nodes is right. What it
//! signs then is not begun, and says why; nothing is lost, doubled or falsely complete, no node is called stale or thrown
//! out, and soon after the clock is right again everything finishes.

use std::path::PathBuf;
use std::time::Duration;

use base::testing::{TestDb, eventually};
use dev::torture::{Ground, Trial, Wish};
use model::api::NodeView;
use model::id::NodeId;
use model::state::NodeState;

use crate::EXE;

const JUMP_MS: i64 = 600_000;
const WRONG_FOR: Duration = Duration::from_secs(6);
const STALE_S: u64 = 8;

async fn until(trial: &Trial, id: NodeId, wanted: NodeState) {
    eventually(&format!("{id} is {wanted}"), async || {
        let seen = trial.stage.api.get::<NodeView>(&format!("/v1/nodes/{id}")).await;
        let state = seen.map(|node| node.state).map_err(|error| error.to_string())?;
        (state == wanted).then_some(()).ok_or(state.to_string())
    })
    .await;
}

/// Every node is there for whoever wants it.
async fn all_ready(trial: &Trial) {
    for (id, _) in &trial.stage.nodes {
        until(trial, *id, NodeState::Ready).await;
    }
}

fn ground(db: &TestDb, nodes: usize) -> Ground {
    let dir = std::env::temp_dir().join(format!("jumps-{}", db.name()));
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    Ground {
        dir,
        exe: PathBuf::from(EXE),
        owner_url: db.owner_url(),
        app_url: db.app_url(),
        nodes,
        slice_nodes: 0,
        replicas: 2,
        stale_s: STALE_S,
        planted: None,
    }
}

fn wish() -> Wish {
    Wish {
        tasks: u64::MAX,
        kills: 0,
        freezes: 0,
        clock_jumps: true,
        // Heard only when its wait is over.
        idle_nodes: 1,
        // Well below the time until what was dated in the future is past.
        patience: Duration::from_secs(60),
        ..Wish::default()
    }
}

async fn ends_well(trial: Trial, ground: &Ground, called_stale: u64) {
    let outcome = trial.end().await.expect("it can be judged");
    assert!(!outcome.stuck && outcome.violations.is_empty(), "{outcome:#?}");
    assert_eq!(outcome.called_stale, called_stale, "{outcome:#?}");
    std::fs::remove_dir_all(&ground.dir).expect("nothing else holds the directory");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_loses_nothing_and_throws_no_node_out() {
    let db = TestDb::new().await;
    let ground = ground(&db, 4);
    let trial = Trial::begin(&wish(), &ground).await.expect("the stage is set");
    for wrong_ms in [JUMP_MS, -JUMP_MS] {
        trial.more(20).await.expect("a load");
        trial.stage.set_clock(wrong_ms).expect("it jumps");
        trial.goes_on(WRONG_FOR).await;
        trial.stage.set_clock(0).expect("it jumps back");
        let again = trial.more(40).await.expect("all of them go on");
        all_ready(&trial).await;
        println!("{wrong_ms} ms wrong: 40 tasks had ended {again:?} after it was right again");
    }
    ends_well(trial, &ground, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_fell_silent_by_a_wrong_clock_is_back_soon_after_it_is_right() {
    let db = TestDb::new().await;
    let ground = ground(&db, 2);
    let trial = Trial::begin(&wish(), &ground).await.expect("the stage is set");
    trial.stage.set_clock(JUMP_MS).expect("it jumps");
    let (id, idle) = trial.stage.nodes.last().expect("two nodes");
    idle.agent.hold();
    until(&trial, *id, NodeState::Stale).await;
    idle.agent.release();
    trial.stage.set_clock(0).expect("it jumps back");
    all_ready(&trial).await;
    ends_well(trial, &ground, 1).await;
}
