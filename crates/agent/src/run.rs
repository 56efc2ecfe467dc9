//! The agent's life: while it has no identity it waits for one; with one it polls, beats, delivers, renews and
//! probes until it is stopped, enrolled anew, or told that another session has taken over.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use model::id::SessionId;
use model::node_api::HeartbeatRequest;
use model::signal::Code;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::Instrument as _;
use wire::retry::jittered;
use wire::stop::Stop;

use crate::api::{Api, Overrides};
use crate::clock::Clock;
use crate::enrol::Enrolment;
use crate::executor::{Done, Executor};
use crate::identity::{Identity, Slots};
use crate::node::Node;
use crate::pace::Pace;
use crate::{VERSION, beat, errands, outbox, poll, probe, renew, telemetry};

#[derive(Clone, Debug)]
pub struct Options {
    pub state_dir: PathBuf,
    pub executor_socket: PathBuf,
    pub overrides: Overrides,
    pub clock: Clock,
    pub pace: Pace,
    /// Who vouches for other hosts of images than the control plane; the system's authorities unless told.
    pub image_ca_file: Option<PathBuf>,
}

impl Options {
    pub fn new(state_dir: PathBuf, executor_socket: PathBuf) -> Self {
        Self {
            state_dir,
            executor_socket,
            overrides: Overrides::default(),
            clock: Clock::real(),
            pace: Pace::default(),
            image_ca_file: None,
        }
    }
}

/// Why the loops of one identity ended.
enum Ended {
    Stopped,
    Enrolled,
    Superseded,
}

/// Runs until stopped. An error is for the supervisor: it starts us again, with a new session.
pub async fn run(options: Options, stop: Stop) -> anyhow::Result<()> {
    let slots = Arc::new(Slots::open(&options.state_dir)?);
    let started_at = options.clock.now();
    tracing::info!(version = VERSION, state_dir = %options.state_dir.display(), "agent starts");
    while !stop.is_stopped() {
        let part = stop.child();
        let (executor, arrivals) = Executor::new(options.executor_socket.clone(), &options.pace);
        let (ended, node) = match usable(&options, &slots) {
            None => {
                // Nobody reads results here; an executor that has some must not wait for a reader.
                drop(arrivals);
                (wait_for_identity(&options, &slots, executor, &part).await, None)
            }
            Some((api, identity)) => {
                let node = Arc::new(Node::new(
                    api,
                    executor,
                    slots.clone(),
                    options.clock.clone(),
                    options.pace.clone(),
                    started_at,
                    options.image_ca_file.clone(),
                ));
                (serve(&node, arrivals, &identity, &part).await?, Some(node))
            }
        };
        part.trigger();
        match ended {
            Ended::Stopped | Ended::Enrolled => {}
            Ended::Superseded => {
                // Whoever took over is alive. Coming back at once would only take it away from them again.
                let pause = jittered(options.pace.superseded, 0.2);
                if stop.or(tokio::time::sleep(pause)).await.is_some() {
                    if let Some(node) = &node {
                        stop.or(ask_once_more(node)).await;
                    }
                    anyhow::bail!("{}", Code::SessionSuperseded);
                }
            }
        }
    }
    tracing::info!("agent stops");
    Ok(())
}

/// Nothing on this machine could have replaced us while we live, so there may be a copy of it elsewhere. That we
/// still ask, so much later, is how the control plane learns of it.
async fn ask_once_more(node: &Node) {
    let nothing = HeartbeatRequest {
        tasks: Vec::new(),
        results_pending: 0,
        disk: None,
        trouble: None,
    };
    if let Err(error) = node.api.heartbeat(&nothing).await {
        tracing::error!(
            reason = error.word(),
            "asked once more in a session that was taken over"
        );
    }
}

/// The kept identity and the calls it can make. One that is of no use is as good as none: then only a new enrolment
/// helps, and it must be possible.
fn usable(options: &Options, slots: &Slots) -> Option<(Api, Identity)> {
    let identity = slots.kept().identity?;
    let (overrides, clock) = (options.overrides.clone(), options.clock.clone());
    match Api::new(identity.clone(), overrides, SessionId::new(), clock) {
        Ok(api) => Some((api, identity)),
        Err(error) => {
            tracing::error!(%error, "the kept identity is of no use; enrol this node anew");
            None
        }
    }
}

async fn wait_for_identity(options: &Options, slots: &Arc<Slots>, executor: Executor, stop: &Stop) -> Ended {
    tracing::info!(code = %Code::NotEnrolled, "waiting for `gpuaas-node-executor enroll`");
    let enrolment = Enrolment {
        executor: &executor,
        slots,
        clock: &options.clock,
        pace: &options.pace,
    };
    tokio::select! {
        () = executor.run(&options.pace, stop) => Ended::Stopped,
        enrolled = enrolment.watch(stop) => if enrolled { Ended::Enrolled } else { Ended::Stopped },
    }
}

/// All loops of one identity; the first that ends ends all.
async fn serve(
    node: &Arc<Node>,
    arrivals: mpsc::Receiver<Done>,
    identity: &Identity,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    tracing::info!(node_id = %identity.node_id, epoch = identity.epoch, url = node.api.url(), "node");
    let span = tracing::info_span!("node", node_id = %identity.node_id);
    let mut loops = JoinSet::new();
    macro_rules! spawn {
        (|$node:ident, $stop:ident| $body:expr) => {{
            let ($node, $stop) = (node.clone(), stop.clone());
            loops.spawn(async move { $body }.instrument(span.clone()));
        }};
    }
    spawn!(|node, stop| {
        node.executor.run(&node.pace, &stop).await;
        Ended::Stopped
    });
    spawn!(|node, stop| match poll::run(&node, &stop).await {
        poll::Ended::Stopped => Ended::Stopped,
        poll::Ended::Superseded => Ended::Superseded,
    });
    spawn!(|node, stop| {
        beat::run(&node, &stop).await;
        Ended::Stopped
    });
    spawn!(|node, stop| {
        outbox::run(&node, arrivals, &stop).await;
        Ended::Stopped
    });
    if let Some(asked) = node.executor.errands() {
        spawn!(|node, stop| {
            errands::run(&node, asked, &stop).await;
            Ended::Stopped
        });
    }
    spawn!(|node, stop| {
        renew::run(&node, &stop).await;
        Ended::Stopped
    });
    spawn!(|node, stop| {
        probe::run(&node, &stop).await;
        Ended::Stopped
    });
    spawn!(|node, stop| {
        telemetry::run(&node, &stop).await;
        Ended::Stopped
    });
    spawn!(|node, stop| {
        let enrolment = Enrolment {
            executor: &node.executor,
            slots: &node.slots,
            clock: &node.clock,
            pace: &node.pace,
        };
        if enrolment.watch(&stop).await {
            Ended::Enrolled
        } else {
            Ended::Stopped
        }
    });
    let first = loops.join_next().await;
    stop.trigger();
    while let Some(ended) = loops.join_next().await {
        ended.context("a loop broke off")?;
    }
    first
        .transpose()
        .context("a loop broke off")
        .map(|ended| ended.unwrap_or(Ended::Stopped))
}
