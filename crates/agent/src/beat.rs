//! Heartbeats: what the executor holds, told to the control plane at once when a task moves and regularly while
//! there is any. The list comes from the executor each time, so it cannot be out of date or made up here.

use model::node_api::HeartbeatRequest;
use model::socket::FromAgent;
use wire::stop::Stop;

use crate::api::CallError;
use crate::node::Node;

pub(crate) async fn run(node: &Node, stop: &Stop) {
    loop {
        let due = async {
            tokio::select! {
                () = node.executor.moved() => {}
                () = tokio::time::sleep(node.heartbeat()) => {}
            }
        };
        if stop.or(due).await.is_none() {
            return;
        }
        if stop.or(once(node)).await.is_none() {
            return;
        }
    }
}

/// One heartbeat, if there is anything to name. Failures are the next beat's business.
pub(crate) async fn once(node: &Node) {
    let Ok(state) = node.executor.hello().await else {
        return;
    };
    if state.tasks.is_empty() && state.results_pending == 0 {
        return;
    }
    let request = HeartbeatRequest {
        tasks: state.tasks.clone(),
        results_pending: state.results_pending,
        disk: state.disk.clone(),
    };
    match node.api.heartbeat(&request).await {
        Ok(answer) => cancel(node, answer.cancel),
        Err(error) => {
            if matches!(error, CallError::Transport(_)) {
                node.probe_wanted.notify_one();
            }
            tracing::warn!(reason = error.word(), "heartbeat");
        }
    }
}

/// Passes on what somebody wants stopped; whether it can be is the executor's decision.
pub(crate) fn cancel(node: &Node, tasks: Vec<model::id::TaskId>) {
    for task_id in tasks {
        if node.executor.tell(FromAgent::Cancel { task_id }).is_err() {
            tracing::debug!(%task_id, "cancel waits for the executor");
        }
    }
}
