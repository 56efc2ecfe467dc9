//! The first walk: a host is let in, a task is asked for, signed, fetched, verified, journalled, executed, and its
//! signed result is seen by a person. Two replicas, another one with every call.

use base::testing::eventually;
use dev::town::Town;
use host::pretend::Profile;
use model::api::{AuditRow, AuditVerdict, Page, TaskView};
use model::id::TaskId;
use model::state::{NodeState, TaskState};

use crate::EXE;
use crate::tenant::Tenant;

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_task_reaches_the_host_and_its_result_comes_back() {
    let town = Town::start(EXE).await;
    let (node, mut running) = town.node("walker", Profile::Cpu).await;
    let shown = town.show_node(node).await;
    assert!(shown.simulated, "a pretended host says so");
    assert!(shown.last_probe.is_some(), "ready is earned by a probe");

    let tenant = Tenant::new("ada", 20_001);
    let intent = tenant.intent(&town, node).await;

    let made = tenant.ask(&town, node, intent, tenant.provision()).await;
    let task = town.until_task(made, TaskState::is_end).await;
    assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
    assert_eq!(task.output["verified"]["user"], true);
    assert!(task.dispatched_at.is_some() && task.started_at.is_some() && task.ended_at.is_some());
    assert!(
        host_accounts(&running).contains("ada"),
        "the pretended host has the account"
    );

    // Whoever asks again, because the answer was lost, hears of the task that has done it.
    let again = tenant.ask(&town, node, intent, tenant.provision()).await;
    assert_eq!(again, made, "one operation, one task");

    let gone = tenant.ask(&town, node, intent, tenant.deprovision()).await;
    let task = town.until_task(gone, TaskState::is_end).await;
    assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
    assert_eq!(task.output["absent"]["processes"], true);
    assert!(!host_accounts(&running).contains("\"ada\""), "and has it no more");

    seen_in_the_audit(&town, made).await;
    let served = town.platform.node_front.as_ref().expect("two replicas").served();
    assert!(served.iter().all(|n| *n > 0), "both replicas were asked: {served:?}");

    running.stop();
    town.end().await;
}

fn host_accounts(node: &dev::simnode::SimNode) -> String {
    std::fs::read_to_string(node.dir.host().join("state.json")).expect("the pretended host's memory")
}

async fn seen_in_the_audit(town: &Town, task: TaskId) {
    let rows: Page<AuditRow> = town
        .api()
        .get(&format!("/v1/audit?target={task}"))
        .await
        .expect("the audit is read");
    let actions: Vec<&str> = rows.items.iter().map(|row| row.action.as_str()).collect();
    for wanted in ["task.enqueue", "task.start", "task.result"] {
        assert!(actions.contains(&wanted), "{wanted} is missing in {actions:?}");
    }
    let verdict: AuditVerdict = eventually("every row is sealed", async || {
        let verdict: AuditVerdict = town.api().get("/v1/audit/verify").await.map_err(|e| e.to_string())?;
        if verdict.unsealed == 0 {
            Ok(verdict)
        } else {
            Err(format!("{} unsealed", verdict.unsealed))
        }
    })
    .await;
    assert!(verdict.broken.is_none() && verdict.sealed > 0, "{verdict:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_asks_for_a_probe_and_watches_it() {
    let town = Town::start(EXE).await;
    let (node, mut running) = town.node("probed", Profile::H100x8).await;
    let asked: TaskView = town
        .api()
        .post(&format!("/v1/nodes/{node}/probe"), &serde_json::json!({}))
        .await
        .expect("asked");
    let task = town.until_task(asked.id, TaskState::is_end).await;
    assert_eq!(task.state, TaskState::Succeeded);
    assert_eq!(task.output["gpus"].as_array().map(Vec::len), Some(8));
    assert_eq!(town.show_node(node).await.state, NodeState::Ready);
    running.stop();
    town.end().await;
}
