//! The slots of a simulated node, put into service as an operator would: look, then approve what nothing stands in the
//! way of. Only for nodes that say that they are pretended; on a real one a person decides.

use std::time::{Duration, Instant};

use anyhow::Context;
use model::api::{Page, SlotView, TaskView};
use model::id::NodeId;
use model::state::{SlotState, TaskState};
use serde_json::json;

use crate::api::Api;

const WITHIN: Duration = Duration::from_secs(60);

/// What there is after the look.
pub struct Approved {
    /// In service, whoever approved them.
    pub slots: Vec<SlotView>,
    /// What stands in the way of the others.
    pub blockers: Vec<String>,
}

/// Looks at the node's devices and approves every slot that can be rented out.
pub async fn approve_all(api: &Api, node: NodeId) -> anyhow::Result<Approved> {
    discover(api, node).await?;
    for slot in of_node(api, node).await? {
        anyhow::ensure!(slot.simulated, "{node} is not a simulated node");
        if slot.state == SlotState::Candidate && slot.blockers.is_empty() {
            let _: SlotView = api.post(&format!("/v1/slots/{}/approve", slot.id), &json!({})).await?;
        }
    }
    let mut slots = of_node(api, node).await?;
    let mut blockers: Vec<String> = slots
        .iter()
        .flat_map(|slot| &slot.blockers)
        .map(|b| format!("{} on {}: {}; {}", b.code, b.subject, b.detail, b.fix))
        .collect();
    blockers.sort();
    blockers.dedup();
    slots.retain(|slot| slot.state.in_service());
    Ok(Approved { slots, blockers })
}

/// Asks for a discovery and waits for its end.
pub async fn discover(api: &Api, node: NodeId) -> anyhow::Result<TaskView> {
    let began = Instant::now();
    let mut task: TaskView = api.post(&format!("/v1/nodes/{node}/discover"), &json!({})).await?;
    while !task.state.is_end() {
        anyhow::ensure!(
            began.elapsed() < WITHIN,
            "the discovery {} is still {}",
            task.id,
            task.state
        );
        let path = format!("/v1/tasks/{}?changed_since={}&wait_s=5", task.id, task.version);
        task = api.get(&path).await?;
    }
    let why = task.detail.clone().unwrap_or_default();
    anyhow::ensure!(
        task.state == TaskState::Succeeded,
        "the discovery {} {}: {why}",
        task.id,
        task.state
    );
    Ok(task)
}

/// All slots of a node, in their order.
pub async fn of_node(api: &Api, node: NodeId) -> anyhow::Result<Vec<SlotView>> {
    let page: Page<SlotView> = api
        .get(&format!("/v1/slots?node={node}&limit=200"))
        .await
        .context("its slots")?;
    let mut slots = page.items;
    slots.sort_by_key(|slot| slot.slot_index);
    Ok(slots)
}
