//! The control plane's clock jumps by ten minutes under load, forward and back, while that of the nodes is right. What it
//! signs then is not begun, and says why; nothing is lost, doubled or falsely complete, no node is called stale or thrown
//! out, and soon after the clock is right again everything finishes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use base::Clock;
use base::config::Config;
use base::testing::{TestDb, eventually};
use dev::torture::{Ground, Trial, Wish};
use dev::town::Town;
use fleet::Fleet;
use model::api::NodeView;
use model::id::NodeId;
use model::state::NodeState;

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::EXE;
use crate::abuse::connect;
use crate::puppet::Puppet;

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
        // Longer than any jump.
        cert_life_s: 86_400,
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

/// Nobody but the test looks for silence.
fn unwatched(config: &mut Config) {
    config.wait_hold_s = 1;
    config.probe_every_s = 1_000_000;
    config.heartbeat_stale_s = 1_000_000;
}

/// Another process, whose clock is off by as much.
pub(crate) async fn another(town: &Town, off_ms: i64) -> (Fleet, Arc<AtomicI64>) {
    let off = Arc::new(AtomicI64::new(off_ms));
    let mut app = town.platform.apps[0].clone();
    app.clock = Clock::wrong(off.clone());
    let stop = tokio_util::sync::CancellationToken::new();
    (Fleet::open(app, stop).await.expect("the fleet opens"), off)
}

async fn looks(fleet: &Fleet) {
    let look = tokio::time::timeout(Duration::from_secs(20), fleet::work::silent_nodes(fleet));
    look.await.expect("nobody is waited for").expect("it looks");
}

/// How far these are in the future, in seconds, or that there are none.
async fn ahead(conn: &mut PgConnection, node: &Puppet) -> [Option<i64>; 3] {
    let ahead = |column| format!("round(extract(epoch from {column} - now()))::bigint");
    let [since, probed, found] = ["state_since", "last_probe_at", "topology_at"].map(ahead);
    let sql = format!("select {since}, {probed}, {found} from node where id = $1");
    let row: (Option<i64>, Option<i64>, Option<i64>) = sqlx::query_as(AssertSqlSafe(sql))
        .bind(node.id().uuid())
        .fetch_one(conn)
        .await
        .expect("the row");
    row.into()
}

async fn put_ahead(conn: &mut PgConnection, node: &Puppet, seconds: i32) {
    let set =
        "update node set state_since = now() + X, last_probe_at = now() + X, topology_at = now() + X where id = $1";
    let set = set.replace('X', &format!("interval '{seconds} s'"));
    let done = sqlx::query(AssertSqlSafe(set))
        .bind(node.id().uuid())
        .execute(conn)
        .await;
    assert_eq!(done.expect("set").rows_affected(), 1);
}

/// Otherwise another one, whose clock is right, would take everybody for silent.
#[tokio::test(flavor = "multi_thread")]
async fn one_whose_clock_alone_jumps_back_dates_nothing_back() {
    let town = Town::tuned(EXE, unwatched).await;
    let node = Puppet::ready(&town, "well").await;
    let (one, off) = another(&town, 0).await;
    let stamps = async || {
        let sql = "select state_since, last_probe_at from node where id = $1";
        let row: (
            sqlx::types::time::OffsetDateTime,
            Option<sqlx::types::time::OffsetDateTime>,
        ) = sqlx::query_as(sql)
            .bind(node.id().uuid())
            .fetch_one(&mut connect(&town).await)
            .await
            .expect("the row");
        row
    };
    let before = stamps().await;
    looks(&one).await;
    off.store(-JUMP_MS, Ordering::SeqCst);
    looks(&one).await;
    assert_eq!(stamps().await, before);
    // One that begins with such a clock is no wiser.
    looks(&another(&town, -JUMP_MS).await.0).await;
    assert_eq!(stamps().await, before);
    town.end().await;
}

/// What a clock that was wrong has left ahead is dated back by whoever starts with a right one, but for what two clocks
/// may differ by; a proof from there proves nothing any more, and a node that somebody holds comes with the next look.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_left_in_the_future_is_dated_back_by_whoever_starts_and_proves_nothing() {
    let town = Town::tuned(EXE, unwatched).await;
    let mut conn = connect(&town).await;
    let nodes = ["far", "held", "near"];
    let mut puppets = Vec::new();
    for (name, seconds) in nodes.into_iter().zip([600, 600, 20]) {
        let puppet = Puppet::ready(&town, name).await;
        put_ahead(&mut conn, &puppet, seconds).await;
        puppets.push(puppet);
    }
    let [far, held, near] = [&puppets[0], &puppets[1], &puppets[2]];
    let mut holder = connect(&town).await;
    let mut holds = holder.begin().await.expect("begins");
    sqlx::query("select from node where id = $1 for update")
        .bind(held.id().uuid())
        .execute(&mut *holds)
        .await
        .expect("held");
    let (one, off) = another(&town, 0).await;
    looks(&one).await;
    let now = |seen: [Option<i64>; 3]| matches!(seen, [Some(-60..=1), None, None]);
    let seen = ahead(&mut conn, far).await;
    assert!(now(seen), "{seen:?}");
    assert!(ahead(&mut conn, held).await[0] > Some(500), "nobody waits for its row");
    holds.rollback().await.expect("lets go");
    looks(&one).await;
    let seen = ahead(&mut conn, held).await;
    assert!(now(seen), "{seen:?}");
    put_ahead(&mut conn, near, 20).await;
    looks(&one).await;
    assert!(
        ahead(&mut conn, near).await[1] > Some(0),
        "two clocks may differ by that"
    );
    off.store(10_000, Ordering::SeqCst);
    looks(&one).await;
    off.store(0, Ordering::SeqCst);
    looks(&one).await;
    let seen = ahead(&mut conn, near).await;
    assert!(now(seen), "a clock that was seen to jump back: {seen:?}");
    town.end().await;
}
