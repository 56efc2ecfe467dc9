//! Kill any process at any moment: every task still ends, and exactly once in effect. The judge is the pretended host,
//! which writes down each change it sees, and not our own journal.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base::config::Config;
use dev::dice::Dice;
use dev::simnode::SimNode;
use dev::town::Town;
use host::pretend::Profile;
use model::api::{AuditRow, Page, VersionView};
use model::id::{NodeId, TaskId};
use model::state::TaskState;
use serde::Deserialize;
use tokio::task::JoinSet;

use crate::EXE;
use crate::tenant::Tenant;

const TENANTS: u32 = 12;
const KILLS: u32 = 15;

fn brisk(config: &mut Config) {
    config.wait_hold_s = 1;
    // A lease that is lost on the way and found again is part of the game.
    config.task_lease_s = 2;
}

/// A line of the pretended host's log: the accounts before and after a change.
#[derive(Deserialize)]
struct Effect {
    before: Vec<(String, u32, Option<String>)>,
    after: Vec<(String, u32, Option<String>)>,
}

/// How often each account appeared and vanished.
fn comings_and_goings(node: &SimNode) -> BTreeMap<String, (u32, u32)> {
    let log = std::fs::read_to_string(node.dir.host().join("effects.jsonl")).expect("the host's log");
    let mut seen: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for line in log.lines() {
        let effect: Effect = serde_json::from_str(line).expect("a line of the log");
        for came in effect.after.iter().filter(|account| !effect.before.contains(account)) {
            seen.entry(came.0.clone()).or_default().0 += 1;
        }
        for went in effect.before.iter().filter(|account| !effect.after.contains(account)) {
            seen.entry(went.0.clone()).or_default().1 += 1;
        }
    }
    seen
}

/// Kills agent, executor or both, now and then; they are brought back.
async fn kills(town: &Town, node: &SimNode, mut dice: Dice) {
    for _ in 0..KILLS {
        // The moment is the dice's, counted in requests; then, mostly, in the middle of a task.
        for _ in 0..dice.roll(40) {
            town.api().get::<VersionView>("/v1/version").await.expect("an answer");
        }
        if dice.roll(4) > 0 {
            next_effect(node).await;
        }
        let victim = dice.roll(3);
        if victim != 0 {
            node.executor.kill();
        }
        if victim != 1 {
            node.agent.kill();
        }
    }
}

/// Until the host has changed, but not for long: nobody may be at work.
async fn next_effect(node: &SimNode) {
    let seen = || std::fs::metadata(node.dir.host().join("effects.jsonl")).map_or(0, |log| log.len());
    let (before, began) = (seen(), Instant::now());
    while seen() == before && began.elapsed() < Duration::from_millis(500) {
        tokio::task::yield_now().await;
    }
}

/// Everybody moves in, and half of them out again as soon as they are in.
async fn tenants(town: &Town, node: NodeId) -> Vec<TaskId> {
    let mut tasks = Vec::new();
    for n in 0..TENANTS {
        let tenant = Tenant::new(&format!("t{n}"), 20_001 + n);
        let moved_in = tenant.moves_in(town, node).await;
        tasks.push(moved_in);
        if n % 2 == 0 {
            town.until_task(moved_in, |state| state == TaskState::Succeeded).await;
            tasks.push(tenant.moves_out(town, node).await);
        }
    }
    tasks
}

/// Each task has ended well, and only once.
async fn all_ended(town: &Town, tasks: &[TaskId]) {
    for task in tasks {
        let task = town.until_task(*task, TaskState::is_end).await;
        assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
        let path = format!("/v1/audit?action=task.result&target={}", task.id);
        let landed: Page<AuditRow> = town.api().get(&path).await.expect("the audit is read");
        assert_eq!(landed.items.len(), 1, "one result landed: {landed:?}");
    }
}

fn each_once(node: &SimNode) {
    let expected: BTreeMap<String, (u32, u32)> = (0..TENANTS)
        .map(|n| (format!("t{n}"), (1, u32::from(n % 2 == 0))))
        .collect();
    assert_eq!(comings_and_goings(node), expected, "(came, went) of each");
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_and_executor_killed_at_random_moments_lose_nothing_and_double_nothing() {
    let seed = 20_261;
    println!("seed {seed}");
    let town = Town::tuned(EXE, brisk).await;
    let (node, mut running) = town.node("cat", Profile::Cpu).await;
    let ((), tasks) = tokio::join!(kills(&town, &running, Dice::new(seed)), tenants(&town, node));
    all_ended(&town, &tasks).await;
    each_once(&running);
    let starts = running.agent.starts() + running.executor.starts();
    assert!(starts > KILLS, "they were killed indeed: {starts} starts");
    running.stop();
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_replaced_under_load_is_not_missed() {
    let mut town = Town::tuned(EXE, brisk).await;
    let (node, mut running) = town.node("steady", Profile::Cpu).await;
    let api = town
        .api()
        .at(&town.platform.public_urls[0])
        .expect("the one that stays");
    for round in 0..3 {
        let mut asked = Vec::new();
        for n in 0..4 {
            let n = round * 4 + n;
            asked.push(Tenant::new(&format!("t{n}"), 20_001 + n).moves_in(&town, node).await);
        }
        town.platform.stop_replica(1).await;
        ended(&api, asked).await;
        town.platform.start_replica(1).await.expect("it is back");
    }
    // Whoever came back serves like the other.
    let task = Tenant::new("last", 30_001).moves_in(&town, node).await;
    town.until_task(task, |state| state == TaskState::Succeeded).await;
    let came = comings_and_goings(&running);
    assert!(
        came.len() == 13 && came.values().all(|seen| *seen == (1, 0)),
        "{came:?}"
    );
    running.stop();
    town.end().await;
}

/// All of them at once, as seen by the replica that stays.
async fn ended(api: &dev::api::Api, tasks: Vec<TaskId>) {
    let mut waits = JoinSet::new();
    for id in tasks {
        let api = api.clone();
        waits.spawn(async move {
            base::testing::eventually("the task succeeds", async || {
                let task: model::api::TaskView =
                    api.get(&format!("/v1/tasks/{id}")).await.map_err(|e| e.to_string())?;
                if task.state == TaskState::Succeeded {
                    Ok(())
                } else {
                    Err(task.state.to_string())
                }
            })
            .await;
        });
    }
    waits.join_all().await;
}
