//! What the control plane adds to the making of a slice: from a tenant's request until the task for the node is committed,
//! and from the node's signed result until the allocation is active. Its limit is the commits on that way, each as long
//! as a bare one of the same server takes between two slices. How many there are is counted by what they leave: each
//! claim of a workflow, each record of its journal, each move of the allocation, the task and its result is one. Those
//! that nobody waits for (numbers for events, seals for the audit log) do not count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use base::Clock;
use base::wake::{Subscriber, Topic};
use model::api::{AllocationCreate, AllocationView};
use model::id::{AllocationId, derive_op};
use model::node_api::OfferedTask;
use model::task::vm_provision::{self, ConsoleModel, Output, Performance, Readiness};
use model::task::{Task, TaskType};
use sqlx::{Connection, Executor, PgConnection};

use super::Place;
use super::lot::{self, Lot};
use super::sample::Sample;
use super::stand::Stand;
use crate::demo;
use crate::figures::{Goal, Report};

const SAMPLES: usize = 120;
const WARM_UP: usize = 16;
const COMMITS_PER_SAMPLE: usize = 4;
const GOAL: f64 = 3.0;
const WITHIN: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_millis(30);

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

/// How long each half took, and its commits.
struct Slice {
    asked: (Duration, i64),
    ended: (Duration, i64),
}

struct Slices<'a> {
    stand: &'a Stand,
    lot: Arc<Lot>,
    conn: PgConnection,
    tasks: Subscriber,
    progress: Subscriber,
    made: usize,
}

impl<'a> Slices<'a> {
    async fn new(stand: &'a Stand, lot: Arc<Lot>) -> anyhow::Result<Self> {
        let wake = &stand.platform.apps[0].wake;
        let mut conn = lot::superuser(stand).await?;
        conn.execute("create table if not exists bare (id bigserial primary key, body bytea)")
            .await?;
        Ok(Self {
            stand,
            lot,
            conn,
            tasks: wake.subscribe(Topic::Tasks),
            progress: wake.subscribe(Topic::Progress),
            made: 0,
        })
    }

    /// The two halves of one slice.
    async fn one(&mut self) -> anyhow::Result<Slice> {
        tokio::time::sleep(IDLE).await;
        // The node waits already, as nodes do.
        let waiting = tokio::spawn(next_provision(self.lot.clone()));
        tokio::time::sleep(IDLE).await;
        self.made += 1;
        let body = AllocationCreate {
            project: None,
            sku: demo::SKU.to_owned(),
            name: None,
            image: None,
            ssh_public_keys: Vec::new(),
            ttl_s: None,
        };
        let began = Instant::now();
        let key = format!("bench-{}", self.made);
        let made: AllocationView = self.stand.api.post_as(&key, "/v1/allocations", &body).await?;
        let asked = self.enqueued(made.id, began).await?;
        let (before, _) = self.written(made.id).await?;
        let (offered, params) = waiting.await??;
        anyhow::ensure!(params.allocation_id == made.id, "the node was given another's task");
        let output = serde_json::to_string(&output_of(&params)?)?;
        tokio::time::sleep(IDLE).await;
        let began = Instant::now();
        self.lot.node.land_with(&offered, Clock::real().now(), output).await?;
        let ended = self.active(made.id, began).await?;
        let mut after = self.written(made.id).await?;
        while !after.1 {
            anyhow::ensure!(began.elapsed() < WITHIN, "the workflow does not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
            after = self.written(made.id).await?;
        }
        Ok(Slice {
            // And the task itself.
            asked: (asked, before + 1),
            // And the result; the record of the workflow's end comes after.
            ended: (ended, after.0 - before + 1 - 1),
        })
    }

    /// Until the task is committed, as whoever hands it out hears of it.
    async fn enqueued(&mut self, id: AllocationId, began: Instant) -> anyhow::Result<Duration> {
        let op = derive_op(id, TaskType::VmProvision.as_str(), 1).uuid();
        loop {
            let there: bool = sqlx::query_scalar("select exists (select from task where op_id = $1)")
                .bind(op)
                .fetch_one(&mut self.conn)
                .await?;
            if there {
                return Ok(began.elapsed());
            }
            anyhow::ensure!(began.elapsed() < WITHIN, "no task for {id}");
            self.tasks.look_again(WITHIN).await;
        }
    }

    async fn active(&mut self, id: AllocationId, began: Instant) -> anyhow::Result<Duration> {
        loop {
            let state: String = sqlx::query_scalar("select state from allocation where id = $1")
                .bind(id.uuid())
                .fetch_one(&mut self.conn)
                .await?;
            if state == "active" {
                return Ok(began.elapsed());
            }
            anyhow::ensure!(began.elapsed() < WITHIN, "{id} is {state}");
            self.progress.look_again(WITHIN).await;
        }
    }

    async fn commit(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        sqlx::query("insert into bare (body) values (convert_to(repeat('b', 1000), 'UTF8'))")
            .execute(&mut self.conn)
            .await?;
        Ok(began.elapsed())
    }

    /// Claims, records and moves so far.
    async fn written(&mut self, id: AllocationId) -> anyhow::Result<(i64, bool)> {
        Ok(sqlx::query_as(
            "select w.epoch + (select count(*) from workflow_step s where s.workflow_id = w.id)
                 + (select count(*) from allocation_transition t where t.allocation_id = w.allocation_id),
                 w.ended_at is not null
             from workflow w where w.allocation_id = $1",
        )
        .bind(id.uuid())
        .fetch_one(&mut self.conn)
        .await?)
    }
}

async fn next_provision(lot: Arc<Lot>) -> anyhow::Result<(OfferedTask, vm_provision::Params)> {
    loop {
        for (offered, task) in lot.answer_once().await? {
            if let Task::VmProvision(params) = task {
                return Ok((offered, params));
            }
        }
    }
}

/// What an executor says of a guest that has all it was promised.
fn output_of(params: &vm_provision::Params) -> anyhow::Result<Output> {
    let slot = params.slots.first().context("a slot")?;
    Ok(Output {
        vm_name: params.vm_name.clone(),
        default_user: params.default_username.clone(),
        private_ip: slot.private_ip,
        ssh_port: 22,
        slot_count: 1,
        readiness: Readiness {
            host_key_pinned: true,
            marker_seen: true,
            took_ms: 1,
        },
        performance: Performance {
            gpus: 1,
            fabric_devices: 1,
            disks: 1,
            memory_mib: slot.memory_mib,
            vcpus: slot.vcpu_count,
            warnings: Vec::new(),
        },
        timings: BTreeMap::new(),
        raw_vnc: false,
        console_model: ConsoleModel::GatewayRequired,
    })
}
