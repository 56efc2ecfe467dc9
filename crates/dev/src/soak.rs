//! Rotation under load: nodes whose certificates live for seconds renew them again and again while tasks run on them.
//! Whether anything failed is read where it would have been written: in the agents' own logs, in the audit log, and in
//! the states of the tasks. Needs a town whose certificates are short-lived.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::config::Config;
use futures_util::future::join_all;
use host::pretend::Profile;
use model::api::{AuditRow, CertificateView, Page};
use model::id::NodeId;
use model::state::TaskState;
use serde::Deserialize;

use crate::figures::{Goal, Report};
use crate::tenant::Tenant;
use crate::town::Town;

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub rotations: u64,
    pub tasks: u64,
    pub tasks_failed: u64,
    /// As the agents counted them, up to their last renewal.
    pub polls: u64,
    /// Calls of an agent that were refused or not answered, of whatever kind.
    pub calls_failed: u64,
    /// Refusals of these nodes that the control plane wrote down.
    pub refused: u64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.rotations += other.rotations;
        self.tasks += other.tasks;
        self.tasks_failed += other.tasks_failed;
        self.polls += other.polls;
        self.calls_failed += other.calls_failed;
        self.refused += other.refused;
    }

    /// The figures and what they should be.
    pub fn report(&self, name: &str, wanted: u64, took: Duration) -> Report {
        let mut report = Report::new(name);
        let mut put = |name: &str, value: u64, goal| report.put(name, value as f64, "", None, goal);
        put("certificate rotations", self.rotations, Goal::AtLeast(wanted as f64));
        put("tasks under way meanwhile", self.tasks, Goal::AtLeast(1.0));
        put("tasks failed", self.tasks_failed, Goal::AtMost(0.0));
        put("polls answered", self.polls, Goal::AtLeast(1.0));
        put("calls failed, as agents saw it", self.calls_failed, Goal::AtMost(0.0));
        put("refusals, as the audit has it", self.refused, Goal::AtMost(0.0));
        report.put("took", took.as_secs_f64(), "s", None, Goal::None);
        report
    }
}

/// Lives of thirty seconds, with everything else as in production: a request for tasks may be held for longer than
/// its certificate has left.
pub fn thirty_seconds(config: &mut Config) {
    config.working_cert_life_s = 30;
}

/// Starts this many nodes and keeps them busy until they have renewed their working certificates so many times in all.
/// `say` hears the counts as they grow.
pub async fn rotations(town: &Town, nodes: u32, wanted: u64, say: impl Fn(Counts)) -> Counts {
    let mut running = Vec::new();
    for n in 0..nodes {
        running.push(town.node(&format!("spin-{n}"), Profile::Cpu).await);
    }
    let total = Mutex::new(Counts::default());
    let note = |more: Counts| {
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        total.add(more);
        say(*total);
        total.rotations < wanted
    };
    let busy = running
        .iter()
        .enumerate()
        .map(|(n, (id, _))| keep_busy(town, *id, n as u32, &note));
    join_all(busy).await;
    for (id, node) in &mut running {
        node.stop();
        let mut seen = told_by_agent(&node.dir.log().join("agent.log"));
        seen.refused = refused(town, *id).await;
        note(seen);
    }
    *total.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tenants come and go for as long as whoever counts wants more.
async fn keep_busy(town: &Town, node: NodeId, n: u32, note: &impl Fn(Counts) -> bool) {
    let mut renewed = 0;
    let mut round = 0;
    let mut more = true;
    while more {
        let tenant = Tenant::new(&format!("t{n}-{round}"), 20_001 + n * 1000 + round % 1000);
        round += 1;
        let moved_in = tenant.moves_in(town, node).await;
        note(ended(town, moved_in).await);
        let moved_out = tenant.moves_out(town, node).await;
        note(ended(town, moved_out).await);
        let now = generation(town, node).await.saturating_sub(1);
        more = note(Counts {
            rotations: now - renewed,
            ..Counts::default()
        });
        renewed = now;
    }
}

async fn ended(town: &Town, task: model::id::TaskId) -> Counts {
    let task = town.until_task(task, TaskState::is_end).await;
    Counts {
        tasks: 1,
        tasks_failed: u64::from(task.state != TaskState::Succeeded),
        ..Counts::default()
    }
}

/// The generation of the newest working certificate that was used.
async fn generation(town: &Town, node: NodeId) -> u64 {
    let path = format!("/v1/nodes/{node}/certificates?limit=10");
    let newest: anyhow::Result<Page<CertificateView>> = town.api().get(&path).await;
    let working = newest.expect("a list").items.into_iter();
    working
        .filter(|c| c.kind == "working" && c.first_used_at.is_some())
        .map(|c| c.generation)
        .max()
        .unwrap_or(1)
}

#[derive(Deserialize)]
struct LogLine {
    level: String,
    message: String,
    reason: Option<String>,
    polls: Option<u64>,
}

/// Every call that did not work leaves a line with a reason; every renewal one with the number of polls so far.
fn told_by_agent(log: &Path) -> Counts {
    let text = std::fs::read_to_string(log).expect("the agent's log");
    let mut counts = Counts::default();
    for line in text.lines() {
        let line: LogLine = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if line.level != "info" && line.reason.is_some() {
            eprintln!(
                "{}: {}: {}",
                log.display(),
                line.message,
                line.reason.unwrap_or_default()
            );
            counts.calls_failed += 1;
        }
        counts.polls = counts.polls.max(line.polls.unwrap_or(0));
    }
    counts
}

async fn refused(town: &Town, node: NodeId) -> u64 {
    let mut refused = 0;
    for action in ["certificate.use", "certificate.renew", "node.session", "node.cloned"] {
        let path = format!("/v1/audit?outcome=refused&action={action}&limit=200");
        let rows: anyhow::Result<Page<AuditRow>> = town.api().get(&path).await;
        let mut about = rows.expect("the audit is read").items;
        about.retain(|row| row.actor_id.contains(&node.to_string()) || row.target_id.contains(&node.to_string()));
        refused += about.len() as u64;
    }
    refused
}

/// What can be run for long, as `gpuaas-dev soak` takes it.
#[derive(clap::Subcommand)]
pub enum Soak {
    /// Certificates of thirty seconds, renewed under load
    Rotations {
        /// How many nodes renew side by side
        #[arg(long, default_value_t = 10)]
        nodes: u32,
        /// How many renewals in all
        #[arg(long, default_value_t = 100)]
        count: u64,
        /// Where to write the figures as JSON
        #[arg(long, value_name = "DIR", default_value = "target/bench")]
        out: PathBuf,
    },
    /// Signing keys replaced under load, all purposes at once
    Keys {
        /// How many times
        #[arg(long, default_value_t = 20)]
        count: u32,
        /// Where to write the figures as JSON
        #[arg(long, value_name = "DIR", default_value = "target/bench")]
        out: PathBuf,
    },
}

impl Soak {
    /// Exit 0 only if nothing failed.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let exe = std::env::current_exe()?.display().to_string();
        let runtime = crate::runtime()?;
        let (report, out) = match self {
            Self::Rotations { nodes, count, out } => (runtime.block_on(watched(&exe, nodes, count)), out),
            Self::Keys { count, out } => (runtime.block_on(crate::key_rotations::soak(&exe, count))?, out),
        };
        report.write(&out)?;
        Ok(if report.ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// Says every second how far it is.
async fn watched(exe: &str, nodes: u32, wanted: u64) -> Report {
    let town = Town::tuned(exe, thirty_seconds).await;
    let began = Instant::now();
    let said = Mutex::new(Instant::now());
    let counts = rotations(&town, nodes, wanted, |counts| {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.elapsed() > Duration::from_secs(1) {
            *said = Instant::now();
            let Counts {
                rotations,
                tasks,
                tasks_failed,
                ..
            } = counts;
            let at = began.elapsed().as_secs();
            println!("{at:>5}s  rotations {rotations}/{wanted}  tasks {tasks}  tasks failed {tasks_failed}");
        }
    })
    .await;
    let report = counts.report("rotations", wanted, began.elapsed());
    town.end().await;
    report
}
