//! Slices that are made one at a time, with a clock at both ends of what the control plane does: whoever hands out tasks,
//! or watches allocations, is woken and looks, and so does the clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Clock;
use base::wake::{Subscriber, Topic};
use model::api::{AllocationCreate, AllocationView};
use model::id::{AllocationId, derive_op};
use model::node_api::OfferedTask;
use model::task::vm_provision::Params;
use model::task::{Task, TaskType};
use sqlx::{Executor, PgConnection};

use super::guest::guest;
use super::lot::{self, Lot};
use super::stand::Stand;
use crate::demo;

const WITHIN: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_millis(30);

/// How long each half took, and its commits.
pub(super) struct Slice {
    pub(super) asked: (Duration, i64),
    pub(super) ended: (Duration, i64),
}

pub(super) struct Slices<'a> {
    stand: &'a Stand,
    lot: Arc<Lot>,
    pub(super) conn: PgConnection,
    told: Subscriber,
    progress: Subscriber,
    made: usize,
}

impl<'a> Slices<'a> {
    pub(super) async fn new(stand: &'a Stand, lot: Arc<Lot>) -> anyhow::Result<Self> {
        let wake = &stand.platform.apps[0].wake;
        let mut conn = lot::superuser(stand).await?;
        conn.execute("create table if not exists bare (id bigserial primary key, body bytea)")
            .await?;
        Ok(Self {
            stand,
            lot,
            conn,
            told: wake.subscribe(Topic::Outbox),
            progress: wake.subscribe(Topic::Progress),
            made: 0,
        })
    }

    /// The two halves of one slice.
    pub(super) async fn one(&mut self) -> anyhow::Result<Slice> {
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
        let output = serde_json::to_string(&guest(&params)?)?;
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

    /// Until the task is committed, as whoever tells others of it hears of it.
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
            self.told.look_again(WITHIN).await;
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

    pub(super) async fn commit(&mut self) -> anyhow::Result<Duration> {
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

async fn next_provision(lot: Arc<Lot>) -> anyhow::Result<(OfferedTask, Params)> {
    loop {
        for (offered, task) in lot.answer_once().await? {
            if let Task::VmProvision(params) = task {
                return Ok((offered, params));
            }
        }
    }
}
