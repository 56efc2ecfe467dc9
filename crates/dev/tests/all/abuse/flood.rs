//! More valid tasks than a node can queue: 256 wait, the rest is refused, and nobody else notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base::Actor;
use base::auth::Role;
use base::config::Config;
use dev::town::Town;
use fleet::Fleet;
use fleet::task::{Ask, Cover, enqueue};
use model::id::NodeId;
use model::node_api::OfferedTask;
use model::signal::Code;
use model::task::{Task, health_probe};
use tokio::task::JoinSet;

use super::{audited, connect, process, refused, request, snapshot};
use crate::EXE;
use crate::puppet::{Puppet, post};
use dev::tenant::Tenant;

const FLOOD: usize = 10_000;
const QUEUE: usize = 256;
const FLOODERS: usize = 4;

/// Nothing comes by itself.
fn quiet(config: &mut Config) {
    config.wait_hold_s = 1;
    config.probe_every_s = 1_000_000;
    config.heartbeat_stale_s = 1_000_000;
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_14_flood() {
    let town = Town::tuned(EXE, quiet).await;
    let flooded = Puppet::ready(&town, "flooded").await;
    let other = Puppet::ready(&town, "other").await;
    let fleet = Arc::new(town.fleet().await);
    let tenant = Tenant::new("late", 20_009);
    let intent = tenant.intent(&town, flooded.id()).await;

    let calm = median(&town, &fleet, &other, |round| round < 15).await;
    let flowing = Arc::new(AtomicBool::new(true));
    let flood = tokio::spawn(pour(fleet.clone(), flooded.id(), flowing.clone()));
    let stormy = median(&town, &fleet, &other, |round| {
        round < 15 || flowing.load(Ordering::SeqCst)
    })
    .await;
    let (taken, full) = flood.await.expect("no panic");
    assert_eq!(
        (taken, full),
        (QUEUE, FLOOD - QUEUE),
        "256 wait, all others are refused"
    );
    assert!(
        stormy <= calm * 10 + Duration::from_millis(250),
        "another node's task took {stormy:?} during the flood, {calm:?} before"
    );
    assert_eq!(queued(&town, flooded.id()).await, QUEUE as i64);

    // The same through the door for workers: a code, an audit row, and nothing else.
    let before = snapshot(&town, &["task"]).await;
    let worker = process(&town, Role::ProvisioningWorker).await;
    let ask = request(&tenant, flooded.id(), intent, &tenant.provision());
    let answer = post(&worker, "/internal/v1/tasks", &ask).await;
    let row = audited(&town, &refused(&answer, Code::NodeQueueFull)).await;
    assert_eq!(
        (row.action.as_str(), row.target_id),
        ("task.ask", flooded.id().to_string())
    );
    assert_eq!(snapshot(&town, &["task"]).await, before);

    // What waits is handed out in pieces that the node can carry, and with room again the wish is granted.
    let offered = flooded.offered().await.tasks;
    assert!(!offered.is_empty() && offered.len() < QUEUE, "{}", offered.len());
    let granted = post(&worker, "/internal/v1/tasks", &ask).await;
    assert_eq!(granted.status, 202, "{granted:?}");
    town.end().await;
}

/// Ten thousand tasks for one node, as fast as several workers can ask.
async fn pour(fleet: Arc<Fleet>, node: NodeId, flowing: Arc<AtomicBool>) -> (usize, usize) {
    let (taken, full) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut workers = JoinSet::new();
    for _ in 0..FLOODERS {
        let (fleet, taken, full) = (fleet.clone(), taken.clone(), full.clone());
        workers.spawn(async move {
            for _ in 0..FLOOD / FLOODERS {
                match probe(&fleet, node).await {
                    Ok(()) => taken.fetch_add(1, Ordering::SeqCst),
                    Err(Code::NodeQueueFull) => full.fetch_add(1, Ordering::SeqCst),
                    Err(code) => panic!("{code}"),
                };
            }
        });
    }
    while workers.join_next().await.is_some() {}
    flowing.store(false, Ordering::SeqCst);
    (taken.load(Ordering::SeqCst), full.load(Ordering::SeqCst))
}

/// A task of its own each time, unlike the probe that operators share.
async fn probe(fleet: &Fleet, node: NodeId) -> Result<(), Code> {
    let mut change = fleet
        .app
        .db
        .change(&Actor::system("flood"), "task.ask", node)
        .await
        .expect("a change");
    let ask = Ask {
        node,
        task: Task::HealthProbe(health_probe::Params {}),
        cover: Cover::Observes,
    };
    enqueue(fleet, &mut change, &ask).await.map_err(|error| error.code)?;
    change.commit().await.expect("commits");
    Ok(())
}

/// A task in this node's hands.
pub(super) async fn one_task(town: &Town, node: &Puppet) -> OfferedTask {
    probe(&town.fleet().await, node.id()).await.expect("there is room");
    node.claim().await
}

/// How long a task of this node takes from the wish to its result, in the middle of several rounds.
async fn median(town: &Town, fleet: &Fleet, node: &Puppet, more: impl Fn(usize) -> bool) -> Duration {
    let mut took = Vec::new();
    while more(took.len()) && took.len() < 500 {
        let since = Instant::now();
        probe(fleet, node.id()).await.expect("there is room");
        let task = node.claim().await;
        assert!(node.succeeds(town, &task).await.status.is_success());
        took.push(since.elapsed());
    }
    took.sort_unstable();
    took[took.len() / 2]
}

async fn queued(town: &Town, node: NodeId) -> i64 {
    let mut conn = connect(town).await;
    sqlx::query_scalar("select count(*) from task where node_id = $1 and state = 'queued'")
        .bind(node.uuid())
        .fetch_one(&mut conn)
        .await
        .expect("a count")
}
