//! Results on their way to the control plane. Each is posted until it is answered for good, however long that
//! takes; then the executor may forget it. The executor keeps them, so whatever is lost here comes again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use model::node_api::ResultRequest;
use model::signal::Code;
use model::socket::FromAgent;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use wire::stop::Stop;

use crate::api::CallError;
use crate::executor::Done;
use crate::node::Node;
use crate::probe;

pub(crate) async fn run(node: &Arc<Node>, mut arrivals: mpsc::Receiver<Done>, stop: &Stop) {
    let under_way = Arc::new(Mutex::new(HashSet::new()));
    let mut posts = JoinSet::new();
    loop {
        let done = tokio::select! {
            () = stop.stopped() => break,
            Some(finished) = posts.join_next() => {
                if let Err(error) = finished {
                    tracing::error!(%error, "a result's delivery broke off; the executor will send it again");
                }
                continue;
            }
            Some(done) = arrivals.recv() => done,
        };
        // A result is sent again on every connection; once under way it is on its way. A refusal and a result of one task are
        // two: neither stands for the other.
        let which = (done.task_id, done.envelope.payload_digest());
        let fresh = under_way.lock().unwrap_or_else(PoisonError::into_inner).insert(which);
        if fresh {
            let (node, stop, under_way) = (node.clone(), stop.clone(), under_way.clone());
            posts.spawn(async move {
                stop.or(deliver(&node, done, &stop)).await;
                under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&which);
            });
        }
    }
    posts.shutdown().await;
}

async fn deliver(node: &Node, done: Done, stop: &Stop) {
    let Done {
        task_id,
        fence,
        envelope,
    } = done;
    if node.take_health_probe(task_id) {
        probe::report(node).await;
    }
    let request = ResultRequest { fence, envelope };
    let mut backoff = node.pace.backoff();
    let status = loop {
        let error = match node.api.result(task_id, &request).await {
            Ok(answer) => {
                tracing::info!(%task_id, duplicate = answer.duplicate, "result landed");
                break 200;
            }
            Err(error) => error,
        };
        if let Some(status) = last_word(&error) {
            tracing::error!(%task_id, status, reason = error.word(), "result refused for good");
            break status;
        }
        tracing::warn!(code = %Code::NodeTaskResultPostFailed, %task_id, reason = error.word(), "result not landed yet");
        node.probe_wanted.notify_one();
        if !backoff.wait(stop).await {
            return;
        }
    };
    // If the executor is away it asks again when it is back, and the answer will be the same.
    node.executor.tell(FromAgent::Acked { task_id, status }).ok();
}

/// The answers after which no repetition can help: the control plane knows this very task, and will never take these bytes.
/// Everything else is tried again for ever, whatever its status: a result is proof of work, and losing one would leave
/// its task unknown.
fn last_word(error: &CallError) -> Option<u16> {
    match error {
        CallError::Refused {
            status: status @ 400..=499,
            code:
                Some(
                    Code::NotFound
                    | Code::StaleFence
                    | Code::ResultConflict
                    | Code::ResultSignatureInvalid
                    | Code::ResultMalformed,
                ),
            ..
        } => Some(*status),
        CallError::Refused { .. } | CallError::Transport(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_no_ends_the_retries() {
        let refused = |status, code| CallError::Refused {
            status,
            code,
            server_time: None,
            retry_after_s: None,
        };
        for status in [
            400, 401, 403, 404, 409, 410, 413, 422, 425, 426, 429, 500, 502, 503, 504,
        ] {
            assert_eq!(last_word(&refused(status, None)), None, "{status}: from whomever");
        }
        // An older process of ours, another listener, a task that may start yet: each may answer otherwise later.
        for code in [
            Code::RouteNotFound,
            Code::StateConflict,
            Code::RefusalEarly,
            Code::Internal,
        ] {
            assert_eq!(last_word(&refused(code.status(), Some(code))), None, "{code}");
        }
        for code in [
            Code::NotFound,
            Code::StaleFence,
            Code::ResultConflict,
            Code::ResultSignatureInvalid,
            Code::ResultMalformed,
        ] {
            assert_eq!(
                last_word(&refused(code.status(), Some(code))),
                Some(code.status()),
                "{code}"
            );
        }
    }
}
