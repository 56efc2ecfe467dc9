//! Heartbeats: what the executor holds, told to the control plane at once when a task moves and regularly while
//! there is any, or while it takes no tasks. The list comes from the executor each time, so it cannot be out of date
//! or made up here. An idle node that is well says so once, and then nothing.

use model::node_api::HeartbeatRequest;
use model::signal::Code;
use model::socket::{ExecutorState, FromAgent};
use wire::stop::Stop;

use crate::api::CallError;
use crate::node::Node;

pub(crate) async fn run(node: &Node, stop: &Stop) {
    loop {
        let due = async {
            tokio::select! {
                () = node.executor.moved() => false,
                () = tokio::time::sleep(node.heartbeat()) => true,
            }
        };
        let Some(regular) = stop.or(due).await else {
            return;
        };
        let beat = async {
            if regular {
                regularly(node).await;
            } else {
                once(node).await;
            }
        };
        if stop.or(beat).await.is_none() {
            return;
        }
    }
}

/// One heartbeat, if there is anything to tell. Failures are the next beat's business.
pub(crate) async fn once(node: &Node) {
    if let Ok(state) = node.executor.hello().await
        && has_news(&state)
    {
        tell(node, told(&state)).await;
    }
}

/// The beat that comes with time: it also tells that there is nothing more to tell, and that the executor is away.
async fn regularly(node: &Node) {
    match node.executor.hello().await {
        Ok(state) if has_news(&state) || !node.told_all_clear() => tell(node, told(&state)).await,
        Ok(_) => {}
        Err(_) => {
            let request = HeartbeatRequest {
                tasks: Vec::new(),
                results_pending: 0,
                disk: None,
                trouble: Some(Code::ExecutorUnreachable),
            };
            tell(node, request).await;
        }
    }
}

fn has_news(state: &ExecutorState) -> bool {
    !state.tasks.is_empty() || state.results_pending > 0 || state.trouble.is_some()
}

fn told(state: &ExecutorState) -> HeartbeatRequest {
    HeartbeatRequest {
        tasks: state.tasks.clone(),
        results_pending: state.results_pending,
        disk: state.disk.clone(),
        trouble: state.trouble,
    }
}

async fn tell(node: &Node, request: HeartbeatRequest) {
    let all_clear = request.tasks.is_empty() && request.results_pending == 0 && request.trouble.is_none();
    match node.api.heartbeat(&request).await {
        Ok(answer) => {
            node.set_told_all_clear(all_clear);
            cancel(node, answer.cancel);
        }
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
