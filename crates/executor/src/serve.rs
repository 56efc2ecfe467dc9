//! What the agent can say, and what is done about it: one match. Requests are answered on the connection they came
//! from or on the one that has replaced it; nothing here waits for a task.

use std::sync::Arc;

use model::envelope::{Identity, Refusal};
use model::id::TaskId;
use model::node_api::{CertificateKind, HeldTask};
use model::signal::Code;
use model::socket::{EnrolmentKeys, ExecutorState, FromAgent, FromExecutor, NodeIdentity};
use model::time::Timestamp;
use model::trust::{Bundle, KeyStatus};

use crate::journal::{Acked, Claimed, Entry, Floor, Task as Known};
use crate::node::{Node, Running};
use crate::policy::Policy;
use crate::verify::{self, Here, Offer, Verdict};
use crate::{device, machine, run};

/// Results per answer; the rest follow when these are acknowledged.
const RESULTS_AT_ONCE: usize = 256;

/// A new connection hears first what the last one may have missed.
pub(crate) fn greet(node: &Node) {
    results(node);
}

pub(crate) fn answer(node: &Arc<Node>, message: FromAgent) {
    let reply = match message {
        FromAgent::Hello { request_id } => state(node, request_id),
        FromAgent::Offer {
            task_id,
            fence,
            envelope,
            server_time,
        } => {
            offer(
                node,
                Offer {
                    task_id,
                    fence,
                    envelope,
                    server_time,
                },
            );
            return;
        }
        FromAgent::Acked { task_id, status } => return acked(node, task_id, status),
        FromAgent::Cancel { task_id } => return cancel(node, task_id),
        FromAgent::Results {} => return results(node),
        FromAgent::Trust { request_id, bundle } => {
            reply(request_id, trust(node, &bundle), |version| FromExecutor::Trusted {
                request_id,
                manifest_version: version,
            })
        }
        FromAgent::EnrolKeys { request_id } => reply(request_id, enrolment_keys(node), |keys| FromExecutor::Keys {
            request_id,
            keys: Box::new(keys),
        }),
        FromAgent::Enrolled { request_id, enrolled } => {
            reply(request_id, enrol(node, &enrolled), |()| FromExecutor::Ok { request_id })
        }
        FromAgent::RenewToken {
            request_id,
            kind,
            working_csr,
            server_time,
        } => {
            let token = renew_token(node, kind, working_csr, server_time);
            reply(request_id, token, |(jwt, device_csr)| FromExecutor::Token {
                request_id,
                jwt,
                device_csr,
            })
        }
        FromAgent::DeviceChain { request_id, chain } => {
            let renewed = node.trust().renew_device(&chain, &node.keys);
            reply(request_id, renewed, |()| FromExecutor::Ok { request_id })
        }
    };
    node.outlet.send(reply);
}

fn reply<T>(request_id: u64, outcome: Result<T, Refusal>, good: impl FnOnce(T) -> FromExecutor) -> FromExecutor {
    match outcome {
        Ok(value) => good(value),
        Err(Refusal { code, detail }) => {
            tracing::warn!(%code, detail, "refused");
            FromExecutor::Failed {
                request_id,
                code,
                detail,
            }
        }
    }
}

fn state(node: &Node, request_id: u64) -> FromExecutor {
    let (identity, manifest_version) = {
        let trust = node.trust();
        (
            trust.identity(),
            trust.trust().map_or(0, |trust| trust.manifest().version),
        )
    };
    let (mut tasks, mut pending) = (Vec::new(), 0);
    if let Ok(journal) = node.journal() {
        let running = node.running();
        for (task_id, known) in journal.book().tasks() {
            match known {
                Known::Open(open) => tasks.push(match running.get(&task_id) {
                    Some(running) => running.held(task_id),
                    None => {
                        let (fence, started_at) = (open.claimed.fence, open.started_at);
                        HeldTask {
                            task_id,
                            fence,
                            phase: "claimed".to_owned(),
                            started_at,
                        }
                    }
                }),
                Known::Finished(finished) if finished.pending() => {
                    pending += 1;
                    let phase = "result_pending".to_owned();
                    let (fence, started_at) = (finished.fence, finished.started_at);
                    tasks.push(HeldTask {
                        task_id,
                        fence,
                        phase,
                        started_at,
                    });
                }
                Known::Finished(_) => {}
            }
        }
    }
    pending += u32::try_from(node.refusals().len()).unwrap_or(u32::MAX);
    let state = ExecutorState {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        identity,
        boot_id: node.machine.boot_id.clone(),
        hardware: node.machine.hardware.clone(),
        simulated: node.options.host.is_simulated(),
        task_types: model::task::announced(),
        manifest_version,
        tasks,
        results_pending: pending,
        disk: machine::disk(&node.options.state_dir),
        trouble: node.journal().err(),
    };
    FromExecutor::State {
        request_id,
        state: Box::new(state),
    }
}

fn offer(node: &Arc<Node>, offer: Offer) {
    let (task_id, fence) = (offer.task_id, offer.fence);
    let said = match take(node, offer) {
        Ok(said) => said,
        Err(code) => FromExecutor::NotTaken { task_id, code },
    };
    if let FromExecutor::NotTaken { code, .. } = &said {
        tracing::warn!(%task_id, fence, %code, "not taken");
    }
    node.outlet.send(said);
    run::start_claimed(node);
}

fn take(node: &Node, offer: Offer) -> Result<FromExecutor, Code> {
    let (task_id, fence) = (offer.task_id, offer.fence);
    let (identity, trust) = {
        let store = node.trust();
        match (store.identity(), store.trust()) {
            (Some(identity), Some(trust)) => (identity, trust.clone()),
            _ => return Err(Code::NotEnrolled),
        }
    };
    let policy = Policy::read(&node.options.policy_path).map_err(|error| {
        tracing::error!(error = format!("{error:#}"), "node.toml");
        Code::ConfigInvalid
    })?;
    let mut journal = node.journal()?;
    let running = busy_with(&journal);
    let clock = node.options.clock.now();
    let NodeIdentity { node_id, epoch, .. } = identity;
    let here = Here {
        trust: &trust,
        me: Identity { node_id, epoch },
        policy: &policy,
        book: journal.book(),
        clock,
        running: &running,
        no_room: no_room(node, journal.takes_claims()),
    };
    match verify::judge(&offer, &here) {
        Verdict::Take { authentic, task } => {
            let claimed = Claimed {
                task_id,
                fence,
                claimed_at: clock,
                subject: task.subject(),
                clock_skew_ms: clock.since_ms(offer.server_time),
                envelope: offer.envelope,
            };
            node.record(&mut journal, Entry::Claimed(claimed))?;
            let payload = &authentic.payload;
            tracing::info!(%task_id, fence, task_type = payload.task_type, correlation_id = %payload.correlation_id, "accepted");
            Ok(FromExecutor::Accepted { task_id, fence })
        }
        Verdict::Running { fence } => Ok(FromExecutor::Accepted { task_id, fence }),
        Verdict::Finished {
            fence,
            result: Some(envelope),
        } => Ok(FromExecutor::Done {
            task_id,
            fence,
            envelope,
        }),
        // The control plane has answered it for good, and the room was needed.
        Verdict::Finished { result: None, .. } => Err(Code::TaskSuperseded),
        Verdict::Refused(refused) => {
            let code = refused.refusal.code;
            tracing::warn!(%task_id, fence, %code, detail = refused.refusal.detail, "task refused");
            let made = (clock, journal.next_seq());
            let key = &node.keys.result;
            let envelope = node.refusals().sign((task_id, fence), &refused, &identity, made, key);
            Ok(FromExecutor::Done {
                task_id,
                fence,
                envelope,
            })
        }
        Verdict::NotNow(code) => Err(code),
    }
}

/// What is open in the journal counts as running, whether its thread has begun or not.
fn busy_with(journal: &crate::journal::Journal) -> Vec<(model::task::TaskType, Option<String>)> {
    let open = journal.book().open();
    let typed = open.filter_map(|(_, open)| Some((open.payload.task_type.parse().ok()?, open.claimed.subject.clone())));
    typed.collect()
}

fn no_room(node: &Node, journal_takes: bool) -> Option<Code> {
    if !journal_takes {
        return Some(Code::JournalFull);
    }
    let free = machine::disk(&node.options.state_dir).map_or(0, |disk| disk.free_bytes);
    (free < node.options.limits.min_free_bytes).then_some(Code::NodeDiskLow)
}

fn acked(node: &Node, task_id: TaskId, status: u16) {
    node.refusals().acked(task_id);
    let Ok(mut journal) = node.journal() else { return };
    let start_by = match journal.book().task(task_id) {
        Some(Known::Finished(finished)) if finished.pending() => finished.start_by,
        Some(Known::Finished(_) | Known::Open(_)) | None => return,
    };
    tracing::info!(%task_id, status, "result acknowledged");
    // A failure ends the executor; there is nobody to tell here.
    node.record(
        &mut journal,
        Entry::Acked(Acked {
            task_id,
            status,
            start_by,
        }),
    )
    .ok();
}

fn cancel(node: &Node, task_id: TaskId) {
    if let Some(running) = node.running().get(&task_id) {
        tracing::info!(%task_id, "cancel asked for");
        running.interrupt(Code::TaskCancelled);
    }
}

/// Every result that is not acknowledged, oldest first.
fn results(node: &Node) {
    let mut messages: Vec<FromExecutor> = Vec::new();
    if let Ok(journal) = node.journal() {
        messages.extend(journal.book().pending().filter_map(|(task_id, finished)| {
            let (fence, envelope) = (finished.fence, finished.result.clone()?);
            Some(FromExecutor::Done {
                task_id,
                fence,
                envelope,
            })
        }));
    }
    messages.extend(node.refusals().pending().map(|kept| {
        let (task_id, fence, envelope) = (kept.task_id, kept.fence, kept.result.clone());
        FromExecutor::Done {
            task_id,
            fence,
            envelope,
        }
    }));
    messages
        .into_iter()
        .take(RESULTS_AT_ONCE)
        .for_each(|message| node.outlet.send(message));
}

/// New documents; what runs under a key that they revoke turns back at its next step.
fn trust(node: &Node, bundle: &Bundle) -> Result<u64, Refusal> {
    let (version, keys) = {
        let mut store = node.trust();
        let version = store.advance(bundle)?;
        let manifest = store.trust().map(|trust| trust.manifest().keys.clone());
        (version, manifest.unwrap_or_default())
    };
    let revoked = |running: &&Arc<Running>| {
        keys.iter()
            .any(|key| Some(key.keyid) == running.keyid && key.status == KeyStatus::Revoked)
    };
    node.running()
        .values()
        .filter(revoked)
        .for_each(|task| task.interrupt(Code::KeyRevoked));
    Ok(version)
}

fn enrolment_keys(node: &Node) -> Result<EnrolmentKeys, Refusal> {
    let (device_csr, _) = node.keys.device_csr(None).map_err(internal)?;
    Ok(EnrolmentKeys {
        device_csr,
        result_public: node.keys.result.public(),
        hardware: node.machine.hardware.clone(),
        facts: node.machine.facts.clone(),
        simulated: node.options.host.is_simulated(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

fn enrol(node: &Node, enrolled: &model::socket::Enrolled) -> Result<(), Refusal> {
    let policy = Policy::read(&node.options.policy_path)
        .map_err(|error| Refusal::new(Code::ConfigInvalid, format!("{error:#}")))?;
    node.trust().enrol(enrolled, policy.root_sha256, &node.keys)?;
    tracing::info!(node_id = %enrolled.node_id, epoch = enrolled.epoch, "enrolled");
    let mut journal = node.journal()?;
    let (time, epoch) = (journal.book().floor().time, enrolled.epoch);
    if journal.book().floor().epoch != epoch {
        // Numbers count per epoch.
        let floor = Floor {
            time,
            epoch,
            seqs: Default::default(),
        };
        node.record(&mut journal, Entry::Floor(floor))?;
    }
    Ok(())
}

/// A token for the agent's working key, or for our own device key.
fn renew_token(
    node: &Node,
    kind: CertificateKind,
    working_csr: Option<String>,
    server_time: Timestamp,
) -> Result<(String, Option<String>), Refusal> {
    let store = node.trust();
    let device = store.device(&node.keys)?;
    let now = node.options.clock.now().max(server_time);
    let (csr, ours) = match (kind, working_csr) {
        (CertificateKind::Working, Some(csr)) => (csr, None),
        (CertificateKind::Working, None) => return Err(Code::CsrInvalid.into()),
        (CertificateKind::Device, _) => {
            let (csr, _) = node.keys.device_csr(Some(device.uri())).map_err(internal)?;
            (csr.clone(), Some(csr))
        }
    };
    let token = device.token(&node.keys, &csr, store.token_audiences(), now);
    token.map(|jwt| (jwt, ours)).map_err(|error| match error {
        device::DeviceError::CsrMalformed => Refusal::new(Code::CsrInvalid, error.to_string()),
        other => Refusal::new(Code::Internal, other.to_string()),
    })
}

fn internal(error: anyhow::Error) -> Refusal {
    Refusal::new(Code::Internal, format!("{error:#}"))
}
