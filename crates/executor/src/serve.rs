//! What the agent can say, and what is done about it: one match. Requests are answered on the connection they came
//! from or on the one that has replaced it; nothing here waits for a task.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use model::envelope::Refusal;
use model::id::TaskId;
use model::node_api::{Disk, HeldTask};
use model::signal::Code;
use model::socket::{ExecutorState, FromAgent, FromExecutor};

use crate::errands::Failed;
use crate::journal::{Finished, Task as Known};
use crate::node::Node;
use crate::policy::Policy;
use crate::verify::Offer;
use crate::{disk, held, identity, offer};

/// Results that may be under way at once; the rest follow as these are acknowledged.
const RESULTS_AT_ONCE: usize = 256;

pub(crate) fn answer(node: &Arc<Node>, message: FromAgent, fd: Option<OwnedFd>) {
    let reply = match message {
        FromAgent::Hello { request_id } => {
            node.outlet.send(state(node, request_id));
            return node.options.errands.say_again();
        }
        FromAgent::Offer {
            task_id,
            fence,
            envelope,
            server_time,
        } => {
            offer::answer(
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
        FromAgent::Guests { request_id } => guests(node, request_id),
        FromAgent::Held { request_id } => return held::answer(node, request_id),
        FromAgent::Trust { request_id, bundle } => reply(request_id, identity::advance(node, &bundle), |version| {
            FromExecutor::Trusted {
                request_id,
                manifest_version: version,
            }
        }),
        FromAgent::Catalogue { request_id, catalogue } => {
            reply(request_id, identity::list_images(node, &catalogue), |version| {
                FromExecutor::Catalogued {
                    request_id,
                    catalogue_version: version,
                }
            })
        }
        FromAgent::Image { sha256 } => {
            let came = fd.map(File::from).ok_or_else(|| nothing_came(Code::ImageUnavailable));
            return node.options.errands.image_came(&sha256, came);
        }
        FromAgent::ImageMoved { sha256, done_bytes } => {
            return node.options.errands.image_moved(&sha256, done_bytes);
        }
        FromAgent::ImageFailed { sha256, code, detail } => {
            let failed = Failed { code, detail };
            return node.options.errands.image_came(&sha256, Err(failed));
        }
        FromAgent::Guest { want } => {
            let came = fd.ok_or_else(|| nothing_came(Code::GuestNotReady));
            return node.options.errands.guest_came(want, came);
        }
        FromAgent::GuestFailed { want, detail } => {
            let code = Code::GuestNotReady;
            return node.options.errands.guest_came(want, Err(Failed { code, detail }));
        }
        FromAgent::EnrolKeys { request_id } => {
            reply(request_id, identity::enrolment_keys(node), |keys| FromExecutor::Keys {
                request_id,
                keys: Box::new(keys),
            })
        }
        FromAgent::Enrolled { request_id, enrolled } => reply(request_id, identity::enrol(node, &enrolled), |()| {
            FromExecutor::Ok { request_id }
        }),
        FromAgent::RenewToken {
            request_id,
            kind,
            working_csr,
            server_time,
        } => {
            let token = identity::renew_token(node, kind, working_csr, server_time);
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

fn nothing_came(code: Code) -> Failed {
    let detail = "the agent says that it hands something over, and hands over nothing".to_owned();
    Failed { code, detail }
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
    let (identity, manifest_version, catalogue_version) = {
        let store = node.trust();
        let listed = store.trust().and_then(|trust| node.catalogue().current(trust));
        (
            store.identity(),
            store.trust().map_or(0, |trust| trust.manifest().version),
            listed.map_or(0, |catalogue| catalogue.version),
        )
    };
    let (mut tasks, mut pending) = (Vec::new(), node.refusals().pending().count());
    let disk = disk::look(&node.options.state_dir);
    let mut trouble = node.trouble();
    if let Ok(mut journal) = node.journal() {
        // Nothing is offered to one that says it is full, so this is where time makes room.
        trouble = trouble.or(node.make_room(&mut journal).err());
        trouble = trouble
            .or_else(|| unwritable(disk.as_ref()))
            .or_else(|| offer::no_room(node, &journal));
        pending += journal.book().pending().count();
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
                            progress: None,
                        }
                    }
                }),
                Known::Finished(finished) if finished.pending() => {
                    let phase = "result_pending".to_owned();
                    let (fence, started_at) = (finished.fence, finished.started_at);
                    tasks.push(HeldTask {
                        task_id,
                        fence,
                        phase,
                        started_at,
                        progress: None,
                    });
                }
                Known::Finished(_) => {}
            }
        }
    }
    let state = ExecutorState {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        identity,
        boot_id: node.machine.boot_id.clone(),
        hardware: node.machine.hardware.clone(),
        simulated: node.options.host.is_simulated(),
        task_types: model::task::announced(),
        manifest_version,
        catalogue_version: Some(catalogue_version),
        tasks,
        results_pending: u32::try_from(pending).unwrap_or(u32::MAX),
        disk,
        trouble,
    };
    FromExecutor::State {
        request_id,
        state: Box::new(state),
    }
}

/// Read from files alone, so it is answered at once. What cannot be read lets nobody send.
fn guests(node: &Node, request_id: u64) -> FromExecutor {
    let host = &node.options.host;
    let policy = Policy::read(&node.options.policy_path).map(|policy| policy.slices());
    let bridges = policy.unwrap_or_default().bridges;
    let listen = bridges
        .iter()
        .filter_map(|bridge| host.network.address(bridge).ok().flatten());
    let guests = host.slices.registered().unwrap_or_else(|error| {
        tracing::warn!(%error, "who may send numbers cannot be read");
        Vec::new()
    });
    FromExecutor::Guests {
        request_id,
        listen: listen.collect(),
        guests,
    }
}

/// The journal has its room; what a task writes elsewhere has none.
fn unwritable(disk: Option<&Disk>) -> Option<Code> {
    disk.filter(|disk| !disk.writable).map(|_| Code::DiskFull)
}

fn acked(node: &Node, task_id: TaskId, status: u16) {
    node.refusals().acked(task_id);
    let Ok(mut journal) = node.journal() else { return };
    let pending = journal.book().pending().filter(|(id, _)| *id == task_id);
    let entries: Vec<_> = pending.map(|(_, done)| done.acknowledged(task_id, status)).collect();
    for entry in entries {
        tracing::info!(%task_id, status, "result acknowledged");
        // A failure ends the executor; there is nobody to tell here.
        node.record(&mut journal, entry).ok();
        let next = journal.book().pending().nth(RESULTS_AT_ONCE - 1).and_then(done);
        next.into_iter().for_each(|message| node.outlet.send(message));
    }
}

fn cancel(node: &Node, task_id: TaskId) {
    if let Some(running) = node.running().get(&task_id) {
        tracing::info!(%task_id, "cancel asked for");
        running.interrupt(Code::TaskCancelled);
    }
}

/// Results that are not acknowledged.
fn results(node: &Node) {
    let mut messages: Vec<FromExecutor> = Vec::new();
    if let Ok(journal) = node.journal() {
        messages.extend(journal.book().pending().take(RESULTS_AT_ONCE).filter_map(done));
    }
    messages.extend(node.refusals().pending().map(|kept| {
        let (task_id, fence, envelope) = (kept.task_id, kept.fence, kept.result.clone());
        FromExecutor::Done {
            task_id,
            fence,
            envelope,
        }
    }));
    messages.into_iter().for_each(|message| node.outlet.send(message));
}

fn done((task_id, finished): (TaskId, &Finished)) -> Option<FromExecutor> {
    let (fence, envelope) = (finished.fence, finished.result.clone()?);
    Some(FromExecutor::Done {
        task_id,
        fence,
        envelope,
    })
}
