//! The queue between a wish and a host: what waits expires, what is handed out keeps its fence, what is lost is
//! unknown and never given to anybody else, and a node that only waits costs nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base::config::Config;
use base::testing::eventually;
use base::{Actor, Clock};
use dev::api::Refused;
use dev::town::Town;
use fleet::task::claim::{claim, nodes_with_work};
use fleet::task::{Ask, Cover, enqueue};
use model::api::{AuditRow, Page, TaskView};
use model::id::{NodeId, SessionId, TaskId};
use model::node_api::{HeartbeatAnswer, OfferedTask, ResultAnswer};
use model::outcome::Outcome;
use model::signal::Code;
use model::state::TaskState;
use model::task::{Task, health_probe};
use model::time::Timestamp;
use sqlx::Connection;
use tokio::task::JoinSet;

use crate::EXE;
use crate::played::code;
use crate::puppet::Puppet;
use crate::tenant::Tenant;

/// Nothing comes by itself: no periodic probe, nobody stale.
fn quiet(config: &mut Config) {
    config.wait_hold_s = 1;
    config.probe_every_s = 1_000_000;
    config.heartbeat_stale_s = 1_000_000;
}

fn quiet_and_long(config: &mut Config) {
    quiet(config);
    config.wait_hold_s = 20;
}

/// A town whose clock stands until the test moves it.
async fn standing() -> Town {
    let now: Timestamp = Clock::real().now();
    Town::at(EXE, Clock::fixed(now), quiet).await
}

async fn cancel(town: &Town, task: TaskId) -> anyhow::Result<TaskView> {
    town.api()
        .post(&format!("/v1/tasks/{task}/cancel"), &serde_json::json!({}))
        .await
}

async fn probe(town: &Town, node: NodeId) -> TaskView {
    let path = format!("/v1/nodes/{node}/probe");
    town.api().post(&path, &serde_json::json!({})).await.expect("asked")
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_is_shown_the_task_as_it_was_written() {
    let town = standing().await;
    let node = Puppet::ready(&town, "shown").await;
    let path = format!("/v1/nodes/{}/probe", node.id());
    let asked: serde_json::Value = town.api().post(&path, &serde_json::json!({})).await.expect("asked");
    let path = format!("/v1/tasks/{}", asked["id"].as_str().expect("an id"));
    let looked: serde_json::Value = town.api().get(&path).await.expect("there");
    assert_eq!(asked, looked);
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_fetched_in_time_expires_and_is_never_handed_out() {
    let town = standing().await;
    let node = Puppet::ready(&town, "late").await;
    let task = Tenant::new("ada", 20_001).moves_in(&town, node.id()).await;
    town.db.clock().advance(901_000);
    let ended = town.until_task(task, TaskState::is_end).await;
    assert_eq!(
        (ended.state, ended.code),
        (TaskState::Expired, Some(Code::StartByPassed))
    );
    assert!(ended.dispatched_at.is_none());
    assert!(node.offered().await.tasks.is_empty(), "too late is too late");
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_is_unknown_stays_with_its_node_and_the_late_result_lands() {
    let town = standing().await;
    let node = Puppet::ready(&town, "silent").await;
    let other = Puppet::ready(&town, "eager").await;
    let asked = Tenant::new("ada", 20_001).moves_in(&town, node.id()).await;
    let task = node.claim().await;
    assert_eq!(task.task_id, asked);
    node.beats(&task, Some(town.db.clock().now())).await;
    assert_eq!(
        town.until_task(asked, |s| s == TaskState::Started).await.node_id,
        node.id()
    );
    town.db.clock().advance(61_000);
    let lost = town.until_task(asked, |s| s == TaskState::Unknown).await;
    assert_eq!(lost.node_id, node.id());
    assert!(lost.waiting.is_some(), "what hangs says why: {lost:?}");
    assert!(other.offered().await.tasks.is_empty(), "nobody else gets it");

    let landed = node.succeeds(&town, &task).await;
    assert!(!landed.json::<ResultAnswer>().expect("it lands").duplicate);
    assert_eq!(
        town.until_task(asked, TaskState::is_end).await.state,
        TaskState::Succeeded
    );
    town.end().await;
}

/// The first of two that a beat names is named under a fence that it never had: the other's start is told all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_told_whatever_else_its_beat_says() {
    let town = standing().await;
    let node = Puppet::ready(&town, "busy").await;
    for uid in [20_001, 20_002] {
        Tenant::new(&format!("t{uid}"), uid).moves_in(&town, node.id()).await;
    }
    let mut tasks = node.offered().await.tasks;
    tasks.sort_by_key(|task| task.task_id);
    let [wrong, right] = tasks.as_slice() else {
        panic!("two tasks: {tasks:?}")
    };
    let now = town.db.clock().now();
    let mut beat = node.heartbeat(wrong, Some(now));
    beat.tasks[0].fence += 1000;
    beat.tasks.extend(node.heartbeat(right, Some(now)).tasks);
    assert!(node.post("heartbeat", &beat).await.status.is_success());
    town.until_task(right.task_id, |state| state == TaskState::Started)
        .await;
    let told = |task: TaskId| {
        let town = &town;
        async move {
            let path = format!("/v1/audit?action=task.start&target={task}");
            let rows: Page<AuditRow> = town.api().get(&path).await.expect("the audit is read");
            let mut conn = crate::abuse::connect(town).await;
            let events: i64 =
                sqlx::query_scalar("select count(*) from outbox where kind = 'task.started' and subject_id = $1")
                    .bind(task.to_string())
                    .fetch_one(&mut conn)
                    .await
                    .expect("counted");
            (rows.items.len(), events)
        }
    };
    assert_eq!(told(right.task_id).await, (1, 1));
    assert_eq!(told(wrong.task_id).await, (0, 0));
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_gets_the_same_task_under_the_same_fence() {
    let town = standing().await;
    let mut node = Puppet::ready(&town, "reborn").await;
    let asked = Tenant::new("ada", 20_001).moves_in(&town, node.id()).await;
    let first = node.claim().await;
    assert!(node.offered().await.tasks.is_empty(), "once is enough for one session");

    let old = std::mem::replace(&mut node.session, SessionId::new());
    assert!(node.opens(|_| {}).await.status.is_success());
    let again = node.claim().await;
    assert_eq!((again.task_id, again.fence), (asked, first.fence));
    assert_eq!(again.envelope, first.envelope, "the very same bytes");
    // Named by this session, it is not handed out any more.
    node.beats(&again, None).await;
    town.db.clock().advance(5_000);
    assert!(node.offered().await.tasks.is_empty());

    let new = std::mem::replace(&mut node.session, old);
    assert_eq!(code(&node.waits().await), Some(Code::SessionSuperseded));
    node.session = new;
    node.succeeds(&town, &again).await;
    assert_eq!(
        town.until_task(asked, TaskState::is_end).await.state,
        TaskState::Succeeded
    );
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_task_is_never_handed_out_and_a_running_one_is_asked_to_stop() {
    let town = Town::tuned(EXE, quiet_and_long).await;
    let node = Puppet::ready(&town, "stopped").await;
    let running = Tenant::new("ada", 20_001).moves_in(&town, node.id()).await;
    let task = node.claim().await;
    node.beats(&task, Some(town.db.clock().now())).await;
    let queued = Tenant::new("bob", 20_002).moves_in(&town, node.id()).await;
    assert_eq!(
        cancel(&town, queued).await.expect("cancelled").state,
        TaskState::Cancelled
    );

    // A wait that is held long hears of it.
    let (heard, asked) = tokio::join!(node.offered(), cancel(&town, running));
    assert_eq!(
        asked.expect("noted").state,
        TaskState::Started,
        "it ends when its node says so"
    );
    assert_eq!((heard.cancel, heard.tasks.len()), (vec![running], 0));
    node.reports(&town, &task, Outcome::Cancelled, Some(Code::TaskCancelled))
        .await;
    assert_eq!(
        town.until_task(running, TaskState::is_end).await.state,
        TaskState::Cancelled
    );
    let refused = cancel(&town, running).await.expect_err("it has ended");
    assert_eq!(
        refused.downcast::<Refused>().expect("a refusal").code(),
        Some(Code::StateConflict)
    );
    town.end().await;
}

/// It may not wait for tasks, so its heartbeats are all that it hears.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_in_quarantine_hears_what_to_stop_when_it_names_it() {
    let town = Town::tuned(EXE, quiet_and_long).await;
    let node = Puppet::ready(&town, "shut-off").await;
    let running = Tenant::new("ada", 20_001).moves_in(&town, node.id()).await;
    let task = node.claim().await;
    let started = Some(town.db.clock().now());
    node.beats(&task, started).await;
    let path = format!("/v1/nodes/{}/quarantine", node.id());
    let reason = serde_json::json!({ "reason": "to be looked at" });
    let _: model::api::NodeView = town.api().post(&path, &reason).await.expect("quarantined");
    cancel(&town, running).await.expect("noted");
    assert_eq!(code(&node.waits().await), Some(Code::NodeQuarantined));
    let heard: HeartbeatAnswer = node.beats(&task, started).await.json().expect("an answer");
    assert_eq!(heard.cancel, [running]);
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_bounded_and_two_probes_in_a_row_are_one() {
    let town = standing().await;
    let node = Puppet::ready(&town, "busy").await;
    let first = probe(&town, node.id()).await;
    assert_eq!(
        probe(&town, node.id()).await.id,
        first.id,
        "asked twice within ten seconds"
    );
    town.db.clock().advance(11_000);
    let second = probe(&town, node.id()).await;
    assert_ne!(second.id, first.id, "an old one is not shared");

    let fleet = town.fleet().await;
    let mut change = fleet
        .app
        .db
        .change(&Actor::system("test"), "task.flood", node.id())
        .await
        .expect("a change");
    let ask = Ask {
        node: node.id(),
        task: Task::HealthProbe(health_probe::Params {}),
        cover: Cover::Observes,
    };
    for _ in 2..256 {
        enqueue(&fleet, &mut change, &ask).await.expect("there is room");
    }
    let full = enqueue(&fleet, &mut change, &ask).await.expect_err("256 are enough");
    assert_eq!(full.code, Code::NodeQueueFull);
    change.commit().await.expect("commits");
    let mut fetched = 0;
    while fetched < 256 {
        fetched += node.offered().await.tasks.len();
    }
    assert_eq!(fetched, 256, "each once");
    town.end().await;
}

async fn queued(town: &Town, node: &Puppet, many: usize) {
    let fleet = town.fleet().await;
    let actor = Actor::system("test");
    let change = fleet.app.db.change(&actor, "task.flood", node.id()).await;
    let mut change = change.expect("a change");
    let ask = Ask {
        node: node.id(),
        task: Task::HealthProbe(health_probe::Params {}),
        cover: Cover::Observes,
    };
    for _ in 0..many {
        enqueue(&fleet, &mut change, &ask).await.expect("there is room");
    }
    change.commit().await.expect("commits");
}

/// What a busy node does not take yet keeps nothing new from it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_handed_out_again_and_again_starves_nothing_new() {
    let town = standing().await;
    let node = Puppet::ready(&town, "full").await;
    queued(&town, &node, 16).await;
    let ids = |tasks: Vec<OfferedTask>| tasks.into_iter().map(|task| task.task_id).collect::<HashSet<_>>();
    let untaken = ids(node.offered().await.tasks);
    assert_eq!(untaken.len(), 16);
    let fleet = town.fleet().await;
    let (mut known, mut new) = (untaken, Vec::new());
    for round in 0..3 {
        town.db.clock().advance(5_000);
        queued(&town, &node, 1).await;
        let answer = claim(&fleet, node.id(), 1, node.session).await;
        let handed = ids(answer.expect("an answer").tasks);
        assert_eq!(handed.len(), 17, "round {round}");
        let fresh: Vec<TaskId> = handed.difference(&known).copied().collect();
        assert_eq!(fresh.len(), 1, "round {round}");
        if round == 2 {
            assert!(handed.contains(&new[0]), "it had waited longest");
        }
        known.extend(&fresh);
        new.extend(fresh);
    }
    town.end().await;
}

/// Two processes of ours never agree to the millisecond about when a task was handed out.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_handed_out_a_moment_ahead_is_not_handed_out_again() {
    let town = standing().await;
    let node = Puppet::ready(&town, "exact").await;
    queued(&town, &node, 1).await;
    let task = node.claim().await.task_id;
    let fleet = town.fleet().await;
    let redeliver_ms = fleet.limits.redeliver_ms;
    let again = async || {
        let now = town.db.clock().now();
        let work = nodes_with_work(fleet.app.db.read(), now, redeliver_ms).await;
        let answer = claim(&fleet, node.id(), 1, node.session).await.expect("an answer");
        let tasks: Vec<_> = answer.tasks.into_iter().map(|task| task.task_id).collect();
        (work.expect("looked").contains(&node.id()), tasks)
    };
    town.db.clock().advance(-100);
    assert_eq!(again().await, (false, Vec::new()));
    town.db.clock().advance(-10_000);
    assert_eq!(again().await, (true, vec![task]), "our clock was set back");
    town.end().await;
}

/// Whoever comes second waits for the node's row and only then looks; a look from before would miss the first.
#[tokio::test(flavor = "multi_thread")]
async fn probes_asked_for_at_once_are_one() {
    let town = Arc::new(standing().await);
    let node = Puppet::ready(&town, "popular").await;
    for round in 0..4 {
        let mut asked = JoinSet::new();
        for _ in 0..8 {
            let (town, id) = (town.clone(), node.id());
            asked.spawn(async move { probe(&town, id).await.id });
        }
        let ids: std::collections::HashSet<_> = asked.join_all().await.into_iter().collect();
        assert_eq!(ids.len(), 1, "round {round}");
        node.succeeds(&town, &node.claim().await).await;
    }
    Arc::into_inner(town).expect("nobody else has it").end().await;
}

/// Without the wake-up each claim would wait for the sweep, two seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_held_wait_is_woken_and_not_polled() {
    let town = Town::tuned(EXE, quiet_and_long).await;
    let node = Puppet::ready(&town, "asleep").await;
    let mut took = Vec::new();
    for n in 0..5 {
        let tenant = Tenant::new(&format!("t{n}"), 20_001 + n);
        let (offered, asked) = tokio::join!(node.claim(), async {
            tenant.moves_in(&town, node.id()).await;
            Instant::now()
        });
        took.push(asked.elapsed());
        node.succeeds(&town, &offered).await;
    }
    took.sort_unstable();
    assert!(took[2] < Duration::from_secs(1), "claims took {took:?}");
    town.end().await;
}

/// The node waits at one of two replicas; it is called by name from the other one too. Of five waits for the sweep, four
/// within half a second would be a rare coincidence.
#[tokio::test(flavor = "multi_thread")]
async fn a_held_wait_is_woken_from_either_replica() {
    let town = Town::tuned(EXE, quiet_and_long).await;
    let node = Puppet::ready(&town, "called").await;
    for url in &town.platform.public_urls {
        let api = town.api().at(url).expect("a URL");
        let mut took = Vec::new();
        for _ in 0..5 {
            let path = format!("/v1/nodes/{}/probe", node.id());
            let (offered, asked) = tokio::join!(node.claim(), async {
                let _: TaskView = api.post(&path, &serde_json::json!({})).await.expect("asked");
                Instant::now()
            });
            took.push(asked.elapsed());
            node.succeeds(&town, &offered).await;
        }
        took.sort_unstable();
        assert!(took[3] < Duration::from_millis(500), "asked at {url}: {took:?}");
    }
    town.end().await;
}

/// Nobody who waits keeps a process that stops: each is answered within five seconds of it, long before its hold is over,
/// and comes back elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_is_answered_when_the_process_stops() {
    let mut town = Town::tuned(EXE, |config| {
        quiet(config);
        config.wait_hold_s = 36;
    })
    .await;
    let node = Puppet::ready(&town, "patient").await;
    let mut wait = tokio::spawn(async move { node.waits().await });
    let early = tokio::time::timeout(Duration::from_millis(500), &mut wait).await;
    assert!(early.is_err(), "there is nothing for it");
    let began = Instant::now();
    for n in 0..town.platform.apps.len() {
        town.platform.stop_replica(n).await;
    }
    assert_eq!(wait.await.expect("no panic").status, 204);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    town.end().await;
}

/// The loops of two replicas make some twenty transactions a second. Fifty nodes that asked even once every two
/// seconds would make as many again; the counters lag by seconds, so a later look may be the true one.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_idle_waits_ask_the_database_nothing() {
    let town = Arc::new(Town::tuned(EXE, quiet_and_long).await);
    let ready = |n: i32| {
        let town = town.clone();
        async move { Puppet::ready(&town, &format!("idle-{n}")).await }
    };
    let nodes = (0..50).map(ready).collect::<JoinSet<_>>().join_all().await;
    let mut waits: JoinSet<_> = nodes
        .into_iter()
        .map(|node| async move { node.waits().await })
        .collect();
    // The loops of two replicas come to a hundred, with nodes and without; one for each node would come on top.
    eventually("a quiet three seconds", async || match transactions(&town).await {
        few if few < 130 => Ok(()),
        many => Err(many),
    })
    .await;
    let answered = waits.try_join_next();
    assert!(answered.is_none(), "nobody has anything to do: {answered:?}");
    drop(waits);
    Arc::into_inner(town).expect("nobody else is left").end().await;
}

/// A node with nothing to do may say so as often as it likes.
#[tokio::test(flavor = "multi_thread")]
async fn beats_of_nodes_without_tasks_ask_the_database_nothing() {
    let town = Arc::new(Town::tuned(EXE, quiet_and_long).await);
    let ready = |n: i32| {
        let town = town.clone();
        async move { Puppet::ready(&town, &format!("beating-{n}")).await }
    };
    let nodes = (0..20).map(ready).collect::<JoinSet<_>>().join_all().await;
    let beats = Arc::new(AtomicUsize::new(0));
    let mut beating: JoinSet<()> = nodes
        .into_iter()
        .map(|node| {
            let beats = beats.clone();
            async move {
                loop {
                    let answer = node.post("heartbeat", &node.nothing_held()).await;
                    assert!(answer.status.is_success(), "{}", answer.status);
                    beats.fetch_add(1, Ordering::SeqCst);
                }
            }
        })
        .collect();
    eventually("three seconds full of beats and without questions", async || {
        let before = beats.load(Ordering::SeqCst);
        let asked = transactions(&town).await;
        // The loops of two replicas come to a hundred.
        match (beats.load(Ordering::SeqCst) - before, asked) {
            (beats, asked) if beats > 500 && asked < 130 => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
    let ended = beating.try_join_next();
    assert!(ended.is_none(), "nobody was turned away: {ended:?}");
    drop(beating);
    Arc::into_inner(town).expect("nobody else is left").end().await;
}

/// Transactions within three seconds: the time itself is what is measured.
async fn transactions(town: &Town) -> i64 {
    let mut conn = sqlx::PgConnection::connect_with(&town.db.superuser())
        .await
        .expect("connects");
    let before = count(&mut conn, town.db.name()).await;
    let began = Instant::now();
    eventually("three seconds", async || match began.elapsed() {
        enough if enough >= Duration::from_secs(3) => Ok(()),
        so_far => Err(so_far),
    })
    .await;
    let after = count(&mut conn, town.db.name()).await;
    conn.close().await.expect("closes");
    after - before
}

async fn count(conn: &mut sqlx::PgConnection, database: &str) -> i64 {
    sqlx::query_scalar("select xact_commit + xact_rollback from pg_stat_database where datname = $1")
        .bind(database)
        .fetch_one(conn)
        .await
        .expect("a count")
}
