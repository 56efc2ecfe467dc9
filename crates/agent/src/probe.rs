//! What the node sees of its own hops, as `gpuaas.node_probe.v1`: the executor, the disk, and the way to the API,
//! whose failure is named in the words of preflight. Posted regularly, after a failed dial and before a health
//! probe's result; printed by `gpuaas-node-agent probe`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::dsse::Envelope;
use model::id::SessionId;
use model::node_api::{NodeProbe, NodeProbeSchema, ProbedHop};
use model::signal::Code;
use tokio::time::Instant;
use wire::http::ErrorKind;
use wire::stop::Stop;

use crate::api::{Api, CallError, Overrides};
use crate::clock::Clock;
use crate::identity::Slots;
use crate::node::Node;
use crate::{VERSION, disk};

pub(crate) async fn run(node: &Node, stop: &Stop) {
    loop {
        let looked = Instant::now();
        if stop.or(report(node)).await.is_none() {
            return;
        }
        let next = async {
            let wanted = async {
                node.probe_wanted.notified().await;
                tokio::time::sleep_until(looked + node.pace.probe_spacing).await;
            };
            tokio::time::timeout(node.self_probe(), wanted).await.ok();
        };
        if stop.or(next).await.is_none() {
            return;
        }
    }
}

/// Looks and posts. That it does not arrive is what it would have said.
pub(crate) async fn report(node: &Node) {
    let probe = NodeProbe {
        schema: NodeProbeSchema::V1,
        at: node.clock.now(),
        agent_version: VERSION.to_owned(),
        process_started_at: node.started_at,
        executor_connected: node.executor.is_connected(),
        disk: look_at_disk(node.state_dir.clone()).await,
        api: dial(&node.api).await,
        held: held(node).await,
    };
    match node.api.self_probe(&probe).await {
        Ok(()) => {}
        Err(CallError::Refused { code: Some(code), .. }) if probe.held.is_some() => {
            tracing::warn!(%code, "self-probe refused");
        }
        Err(error) => tracing::debug!(reason = error.word(), "self-probe not posted"),
    }
}

/// None where the executor is away, has no identity yet, or is still looking: the next probe asks again.
async fn held(node: &Node) -> Option<Envelope> {
    match node.executor.held().await {
        Ok(envelope) => Some(envelope),
        Err(error) => {
            tracing::debug!(%error, "no list of what is held");
            None
        }
    }
}

/// The same document from outside the agent, without disturbing it.
pub async fn from_outside(state_dir: &Path, executor_socket: &Path, overrides: Overrides, clock: &Clock) -> NodeProbe {
    let at = clock.now();
    let kept = Slots::peek(state_dir).unwrap_or_default();
    let api = match kept.identity {
        None => unreached(String::new(), Code::NotEnrolled.as_str()),
        Some(identity) => {
            let url = identity.endpoints.node_api_url.clone();
            match Api::new(identity, overrides, SessionId::new(), clock.clone()) {
                Ok(api) => dial(&api).await,
                Err(error) => {
                    tracing::error!(%error, "identity");
                    unreached(url, "cert_untrusted")
                }
            }
        }
    };
    NodeProbe {
        schema: NodeProbeSchema::V1,
        at,
        agent_version: VERSION.to_owned(),
        process_started_at: at,
        executor_connected: listening(executor_socket),
        disk: look_at_disk(state_dir.to_owned()).await,
        api,
        held: None,
    }
}

async fn look_at_disk(state_dir: PathBuf) -> Option<model::node_api::Disk> {
    // A disk that hangs must not hold up the report about it.
    let look = tokio::task::spawn_blocking(move || disk::look(&state_dir));
    tokio::time::timeout(Duration::from_secs(3), look).await.ok()?.ok()?
}

async fn dial(api: &Api) -> ProbedHop {
    let begun = Instant::now();
    let reason = api.ping().await.err().and_then(|error| reason(&error));
    let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    ProbedHop {
        url: api.url(),
        ok: reason.is_none(),
        reason: reason.map(str::to_owned),
        took_ms,
    }
}

fn unreached(url: String, reason: &str) -> ProbedHop {
    ProbedHop {
        url,
        ok: false,
        reason: Some(reason.to_owned()),
        took_ms: 0,
    }
}

/// Why the way to the API is not open. Any answer of ours means that it is: whether we are welcome is another hop,
/// and the control plane sees that one better.
fn reason(error: &CallError) -> Option<&'static str> {
    match error {
        CallError::Refused { .. } => None,
        CallError::Transport(error) => Some(word(error.kind)),
    }
}

/// In the words of preflight, which are fewer than ours.
fn word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Timeout => ErrorKind::TcpTimeout.as_str(),
        ErrorKind::Closed => ErrorKind::TcpRefused.as_str(),
        ErrorKind::UrlInvalid => ErrorKind::DnsFailed.as_str(),
        ErrorKind::BodyTooLarge | ErrorKind::BodyMalformed => ErrorKind::NotGpuaas.as_str(),
        ErrorKind::DnsFailed
        | ErrorKind::TcpTimeout
        | ErrorKind::TcpRefused
        | ErrorKind::ServerCertUntrusted
        | ErrorKind::ServerCertExpired
        | ErrorKind::ServerNameMismatch
        | ErrorKind::CertExpired
        | ErrorKind::CertRevoked
        | ErrorKind::CertUntrusted
        | ErrorKind::NotGpuaas
        | ErrorKind::EdgeRateLimited => kind.as_str(),
    }
}

/// Does anybody listen on this socket? Read from the kernel's table: to connect would push the agent off it.
fn listening(socket: &Path) -> bool {
    const ACCEPTS: &str = "00010000";
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    table.lines().any(|line| {
        let mut fields = line.split_whitespace();
        fields.nth(3) == Some(ACCEPTS) && fields.next_back().is_some_and(|path| Path::new(path) == socket)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::preflight::Reason;

    #[test]
    fn every_failure_has_a_word_that_preflight_knows() {
        for kind in ErrorKind::ALL {
            let known = Reason::ALL.iter().any(|reason| reason.as_str() == word(*kind));
            assert!(known, "{kind} is told as {:?}", word(*kind));
        }
    }

    #[test]
    fn a_listening_socket_is_seen_without_touching_it() {
        let path = std::env::temp_dir().join(format!("gpuaas-agent-listening-{}", std::process::id()));
        assert!(!listening(&path));
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("bound");
        assert!(listening(&path));
        listener.set_nonblocking(true).expect("set");
        assert!(listener.accept().is_err(), "nobody connected");
        drop(listener);
        assert!(!listening(&path), "the file alone is no listener");
        std::fs::remove_file(&path).expect("removed");
    }
}
