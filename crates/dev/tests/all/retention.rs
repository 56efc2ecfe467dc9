//! What only looked is forgotten after its time; what acted, what is still open, and every audit row stay.

use dev::town::Town;
use fleet::task::retention::forget_looks;
use host::pretend::Profile;
use model::api::{Page, TaskView};
use model::state::TaskState;

use crate::EXE;
use crate::tenant::Tenant;

async fn tasks(town: &Town) -> Vec<TaskView> {
    let page: Page<TaskView> = town.api().get("/v1/tasks?limit=200").await.expect("a list");
    page.items
}

#[tokio::test(flavor = "multi_thread")]
async fn old_looks_are_forgotten_and_nothing_else() {
    let town = Town::tuned(EXE, |config| config.probe_every_s = 1_000_000).await;
    let (node, mut running) = town.node("elder", Profile::Cpu).await;
    let acted = Tenant::new("stays", 20_001).moves_in(&town, node).await;
    town.until_task(acted, |state| state == TaskState::Succeeded).await;
    running.stop();
    // Still open: nobody is there to do it.
    let open: TaskView = town
        .api()
        .post(&format!("/v1/nodes/{node}/probe"), &serde_json::json!({}))
        .await
        .expect("a probe is queued");
    let looked: Vec<TaskView> = tasks(&town)
        .await
        .into_iter()
        .filter(|t| t.state.is_end() && t.id != acted)
        .collect();
    assert!(!looked.is_empty(), "the node was probed to become ready");

    let app = &town.platform.apps[0];
    let now = app.clock.now();
    let first = looked.iter().filter_map(|t| t.ended_at).min().expect("they ended");
    assert_eq!(
        forget_looks(app.db.bookkeeping(), first).await.expect("a pass"),
        0,
        "too young"
    );
    let gone = forget_looks(app.db.bookkeeping(), now.plus_s(1)).await.expect("a pass");
    assert_eq!(gone, looked.len() as u64);
    let left: Vec<_> = tasks(&town).await.into_iter().map(|t| t.id).collect();
    assert_eq!(left, [open.id, acted], "what acted and what is open");
    for task in &looked {
        let path = format!("/v1/audit?action=task.enqueue&target={}", task.id);
        let signed: Page<model::api::AuditRow> = town.api().get(&path).await.expect("the audit");
        assert_eq!(signed.items.len(), 1, "the signature log keeps {}", task.id);
    }
    town.end().await;
}
