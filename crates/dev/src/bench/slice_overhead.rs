//! What the control plane adds to the making of a slice: from a tenant's request until the task for the node is committed,
//! and from the node's signed result until the allocation is active. Its limit is the commits on that way, each as long
//! as a bare one of the same server takes between two slices. How many there are is counted by what they leave: each
//! claim of a workflow, each record of its journal, each move of the allocation, the task and its result is one. Those
//! that nobody waits for (numbers for events, seals for the audit log) do not count.

use std::sync::Arc;

use sqlx::Connection;

use super::Place;
use super::lot::{self, Lot};
use super::sample::Sample;
use super::slices::Slices;
use super::stand::Stand;
use crate::figures::{Goal, Report};

const SAMPLES: usize = 120;
const WARM_UP: usize = 16;
const COMMITS_PER_SAMPLE: usize = 4;
const GOAL: f64 = 3.0;

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let stand = Stand::start(place, "slice-overhead", 1, |_| {}).await?;
    let lot = Arc::new(Lot::open(&stand).await?);
    lot.more_slots(&stand, i32::try_from((SAMPLES + WARM_UP).div_ceil(8))?)
        .await?;
    lot::projects(&stand, 0).await?;
    let mut bench = Slices::new(&stand, lot).await?;
    for _ in 0..WARM_UP {
        bench.one().await?;
    }
    let (mut asked, mut ended, mut commit) = (Sample::default(), Sample::default(), Sample::default());
    let (mut to_task, mut to_active) = (0, 0);
    for _ in 0..SAMPLES {
        let slice = bench.one().await?;
        asked.put(slice.asked.0);
        ended.put(slice.ended.0);
        to_task += slice.asked.1;
        to_active += slice.ended.1;
        for _ in 0..COMMITS_PER_SAMPLE {
            commit.put(bench.commit().await?);
        }
    }
    bench.conn.close().await?;
    stand.end().await?;
    let of_each = |all: i64| all as f64 / SAMPLES as f64;
    let (one, to_task, to_active) = (commit.p(50.0), of_each(to_task), of_each(to_active));
    let path = to_task + to_active;
    report.put("samples", asked.len() as f64, "", None, Goal::None);
    report.put("one commit, p50", one, "ms", None, Goal::None);
    report.put("commits from request to task", to_task, "", None, Goal::None);
    report.put("commits from result to active", to_active, "", None, Goal::None);
    let (p50, limit) = (asked.p(50.0), to_task * one);
    report.put("request to task enqueued, p50", p50, "ms", Some(limit), Goal::None);
    let (p50, limit) = (ended.p(50.0), to_active * one);
    report.put("result to active, p50", p50, "ms", Some(limit), Goal::None);
    let both = asked.p(50.0) + ended.p(50.0);
    let goal = Goal::RatioAtMost(GOAL);
    report.put("both, p50", both, "ms", Some(path * one), goal);
    Ok(())
}
