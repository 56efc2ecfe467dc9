//! What the control plane adds to the making of a slice: from a tenant's request until the task for the node is committed,
//! and from the node's signed result until the allocation is active. Its limit is the commits on that way, each as long
//! as a bare one of the same server takes between two slices. How many there are is counted by what they leave: each
//! claim of a workflow, each record of its journal, each move of the allocation, the task and its result is one. Those
//! that nobody waits for (numbers for events, seals for the audit log) do not count.
//!
//! Where a commit costs next to nothing, this is the cost of some sixty statements and four requests, told in commits. So
//! it is measured once more with commits as slow as those of an ordinary disk without a cache: PostgreSQL itself waits for
//! so long before each of its flushes, for ours and the bare ones alike.

use std::sync::Arc;

use sqlx::{ConnectOptions, Connection, Executor};

use super::Place;
use super::lot::{self, Lot};
use super::sample::Sample;
use super::slices::Slices;
use super::stand::Stand;
use crate::figures::{Goal, Report};

const SAMPLES: usize = 120;
const SLOW_SAMPLES: usize = 64;
const WARM_UP: usize = 16;
const COMMITS_PER_SAMPLE: usize = 4;
const GOAL: f64 = 3.0;
/// What a commit waits for at least, so that it takes as long as on a disk that has to turn or to be asked over a network.
const SLOW_COMMITS: &str = "alter system set commit_delay = 3000; alter system set commit_siblings = 0";

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let stand = Stand::start(place, "slice-overhead", 1, |_| {}).await?;
    let lot = Arc::new(Lot::open(&stand).await?);
    let slots = SAMPLES + SLOW_SAMPLES + 2 * WARM_UP;
    lot.more_slots(&stand, i32::try_from(slots.div_ceil(8))?).await?;
    lot::projects(&stand, 0).await?;
    let mut bench = Slices::new(&stand, lot).await?;
    let quick = Series::of(&mut bench, SAMPLES).await?;
    let mut owner = stand.postgres.superuser(base::db::managed::DATABASE).connect().await?;
    for statement in SLOW_COMMITS.split(';').chain(["select pg_reload_conf()"]) {
        owner.execute(sqlx::AssertSqlSafe(statement.to_owned())).await?;
    }
    owner.close().await?;
    let slow = Series::of(&mut bench, SLOW_SAMPLES).await?;
    bench.conn.close().await?;
    stand.end().await?;
    quick.tell(report, "", "");
    slow.tell(report, "slow disk: ", ", with a flush that takes 3 ms");
    Ok(())
}

struct Series {
    asked: Sample,
    ended: Sample,
    commit: Sample,
    /// Commits on the way of all samples, to the task and from its result.
    to_task: i64,
    to_active: i64,
}

impl Series {
    async fn of(bench: &mut Slices<'_>, samples: usize) -> anyhow::Result<Self> {
        for _ in 0..WARM_UP {
            bench.one().await?;
        }
        let mut series = Self {
            asked: Sample::default(),
            ended: Sample::default(),
            commit: Sample::default(),
            to_task: 0,
            to_active: 0,
        };
        for _ in 0..samples {
            let slice = bench.one().await?;
            series.asked.put(slice.asked.0);
            series.ended.put(slice.ended.0);
            series.to_task += slice.asked.1;
            series.to_active += slice.ended.1;
            for _ in 0..COMMITS_PER_SAMPLE {
                series.commit.put(bench.commit().await?);
            }
        }
        Ok(series)
    }

    fn tell(&self, report: &mut Report, of: &str, how: &str) {
        let samples = self.asked.len() as f64;
        let (to_task, to_active) = (self.to_task as f64 / samples, self.to_active as f64 / samples);
        let one = self.commit.p(50.0);
        let mut put =
            |name: &str, value, unit, limit, goal| report.put(&format!("{of}{name}"), value, unit, limit, goal);
        put("samples", samples, "", None, Goal::None);
        put(&format!("one commit, p50{how}"), one, "ms", None, Goal::None);
        put("commits from request to task", to_task, "", None, Goal::None);
        put("commits from result to active", to_active, "", None, Goal::None);
        let (asked, ended) = (self.asked.p(50.0), self.ended.p(50.0));
        put(
            "request to task enqueued, p50",
            asked,
            "ms",
            Some(to_task * one),
            Goal::None,
        );
        put("result to active, p50", ended, "ms", Some(to_active * one), Goal::None);
        let limit = Some((to_task + to_active) * one);
        put("both, p50", asked + ended, "ms", limit, Goal::RatioAtMost(GOAL));
    }
}
