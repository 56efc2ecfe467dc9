//! The verdict of a run, as figures for people and as JSON for whoever compares runs.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::run::{VICTIMS, Wish};
use crate::figures::{Goal, Report};
use crate::history::{self, History, Kind, Violation};
use crate::proxy::Counts;

#[derive(Clone, Debug)]
pub struct Outcome {
    pub tasks: u64,
    /// Those of them that made or released a slice.
    pub slice_tasks: u64,
    /// Agents, executors, api replicas.
    pub kills: Vec<u64>,
    /// Of api replicas.
    pub freezes: u64,
    pub longest_freeze: Duration,
    /// Nodes that were taken for silent, although none was for long.
    pub called_stale: u64,
    /// Nodes that were taken for two, although each was killed so often.
    pub called_copies: u64,
    /// Working certificates that nodes have renewed and used meanwhile.
    pub renewals: u64,
    pub counts: Counts,
    pub asked_again: u64,
    pub starts: u64,
    pub took: Duration,
    /// It was given up, because nothing ended any more.
    pub stuck: bool,
    pub violations: Vec<Violation>,
    /// Executors that were killed between the first and the last move of a task.
    pub deaths_at_work: u64,
    pub events: u64,
    pub effects: u64,
}

pub(super) fn judge(history: &History) -> Vec<Violation> {
    let changes = |key: &str| !key.ends_with(" probe");
    [
        history::all_ended(history),
        history::at_most_one_effect(history),
        history::steps_once(history),
        history::none_falsely_complete(history, changes),
        history::none_failed(history),
        history::none_unasked(history),
        history::one_holder_at_a_time(history),
    ]
    .concat()
}

impl Outcome {
    /// How many different things were found that way.
    pub fn found(&self, kind: Kind) -> usize {
        let found = self.violations.iter().filter(|violation| violation.kind == kind);
        let ops: BTreeSet<&str> = found.map(|violation| whose(&violation.key)).collect();
        ops.len()
    }

    /// Prints every figure with its goal.
    pub fn report(&self, wish: &Wish) -> Report {
        let mut report = Report::new("torture");
        let mut put = |name: &str, value: f64, unit, goal| report.put(name, value, unit, None, goal);
        put("tasks ended", self.tasks as f64, "", Goal::AtLeast(wish.tasks as f64));
        let least = Goal::AtLeast(if wish.renters > 0 { wish.tasks / 20 } else { 0 } as f64);
        put("  of slices", self.slice_tasks as f64, "", least);
        let kills: u64 = self.kills.iter().sum();
        put("kill -9", kills as f64, "", Goal::AtLeast(wish.kills as f64));
        for ((kind, count), weight) in VICTIMS.iter().zip(&self.kills).zip(wish.victims) {
            // Nobody is spared: a tenth of the kills at least.
            let least = if weight > 0 { wish.kills / 10 } else { 0 } as f64;
            put(&format!("kill -9 of {kind}"), *count as f64, "", Goal::AtLeast(least));
        }
        let at_least = Goal::AtLeast(wish.freezes as f64);
        put("api replicas that stood still", self.freezes as f64, "", at_least);
        put("  longest", self.longest_freeze.as_secs_f64(), "s", Goal::None);
        put("nodes called stale", self.called_stale as f64, "", Goal::AtMost(0.0));
        put(
            "nodes taken for copies",
            self.called_copies as f64,
            "",
            Goal::AtMost(0.0),
        );
        let least = Goal::AtLeast(if wish.kills > 0 { 1.0 } else { 0.0 });
        put("certificates renewed and used", self.renewals as f64, "", least);
        // An executor that is only ever killed while it rests proves little.
        let least = (wish.kills * wish.victims[1]).min(wish.kills / 50) as f64;
        put(
            "  in the middle of a task",
            self.deaths_at_work as f64,
            "",
            Goal::AtLeast(least),
        );
        let about = |of: u64| Goal::AtLeast(about(wish.loss_pct, of));
        put("requests", self.counts.requests as f64, "", Goal::None);
        put("requests lost", self.counts.lost_requests as f64, "", Goal::None);
        let (asked, answered) = (self.counts.requests, self.counts.answers);
        put(
            "requests lost, share",
            self.counts.lost_requests_pct(),
            "%",
            about(asked),
        );
        put("answers", self.counts.answers as f64, "", Goal::None);
        put("answers lost", self.counts.lost_answers as f64, "", Goal::None);
        put(
            "answers lost, share",
            self.counts.lost_answers_pct(),
            "%",
            about(answered),
        );
        for kind in [
            Kind::Lost,
            Kind::Doubled,
            Kind::FalselyComplete,
            Kind::Failed,
            Kind::Unasked,
            Kind::TwoHolders,
            Kind::LeftBehind,
        ] {
            put(kind.as_str(), self.found(kind) as f64, "", Goal::AtMost(0.0));
        }
        put("stuck", f64::from(u8::from(self.stuck)), "", Goal::AtMost(0.0));
        put("effects on hosts", self.effects as f64, "", Goal::None);
        put("events judged", self.events as f64, "", Goal::None);
        put("connections", self.counts.connections as f64, "", Goal::None);
        put("asked again", self.asked_again as f64, "", Goal::None);
        put("starts of processes", self.starts as f64, "", Goal::None);
        put("duration", self.took.as_secs_f64(), "s", Goal::None);
        put(
            "tasks per second",
            self.tasks as f64 / self.took.as_secs_f64(),
            "/s",
            Goal::None,
        );
        put(
            "kills per second",
            kills as f64 / self.took.as_secs_f64(),
            "/s",
            Goal::None,
        );
        for violation in self.violations.iter().take(20) {
            println!("{}: {}: {}", violation.kind.as_str(), violation.key, violation.why);
        }
        report
    }
}

/// What fair dice that lose so many of a hundred lose at least: four deviations below, which they miss once in 30,000
/// times.
fn about(pct: u64, of: u64) -> f64 {
    let share = pct as f64 / 100.0;
    let deviation = (share * (1.0 - share) / of.max(1) as f64).sqrt();
    let least = (share - 4.0 * deviation).max(0.0);
    (least * 1000.0).floor() / 10.0
}

/// What a tenant's life makes of a host is counted once, however many of its differences are wrong.
fn whose(key: &str) -> &str {
    match key.split_once(' ') {
        Some((tenant, _)) if tenant.contains('/') => tenant,
        Some(_) | None => key,
    }
}

/// `<dir>/torture.json`: what it takes to have the run again, and what came of it.
pub fn write(report: &Report, wish: &Wish, nodes: usize, commit: &str, dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)?;
    let cores = std::thread::available_parallelism()?;
    let text = serde_json::to_string_pretty(&json!({
        "date": base::Clock::real().now(),
        "cores": cores,
        "commit": commit,
        "seed": wish.seed,
        "tasks": wish.tasks,
        "kills": wish.kills,
        "freezes": wish.freezes,
        "loss_pct": wish.loss_pct,
        "nodes": nodes,
        "renters": wish.renters,
        "ok": report.ok(),
        "figures": report.figures(),
    }))?;
    std::fs::write(dir.join("torture.json"), text + "\n")?;
    Ok(())
}
