//! From the request that asks for a task until its handler starts, on an idle platform with a real agent and a real
//! executor in processes of their own. The moment of the start is the one that the executor signs; it is read just
//! before the record that makes it durable. On the way to it nothing can be skipped but waits: two commits (queued,
//! claimed) and one fdatasync (taken into the journal). Each is measured beside every sample, on the same disk.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use base::Clock;
use model::api::TaskView;
use model::id::NodeId;
use serde_json::json;
use sqlx::{ConnectOptions, Connection, Executor, PgConnection};

use super::Place;
use super::sample::Sample;
use super::stand::Stand;
use crate::api::Api;
use crate::figures::{Goal, Report};

const SAMPLES: usize = 250;
const COMMITS: f64 = 2.0;
const FDATASYNCS: f64 = 1.0;
const GOAL: f64 = 1.5;
const GRACE_MS: f64 = 5.0;

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let stand = Stand::start(place, "start-latency", 1, |_| {}).await?;
    let (id, mut node) = stand.ready_node(place, "idle").await?;
    let mut disk = Disk::prepare(&stand).await?;
    let (mut latency, mut commits, mut syncs) = (Sample::default(), Sample::default(), Sample::default());
    for _ in 0..SAMPLES {
        latency.put(once(&stand.api, id).await?);
        commits.put(disk.commit().await?);
        syncs.put(disk.fdatasync()?);
    }
    disk.conn.close().await?;
    tokio::task::spawn_blocking(move || node.stop()).await?;
    stand.end().await?;
    let floor = COMMITS * commits.p(50.0) + FDATASYNCS * syncs.p(50.0);
    report.put("samples", latency.len() as f64, "", None, Goal::None);
    report.put("commit, p50", commits.p(50.0), "ms", None, Goal::None);
    report.put("fdatasync, p50", syncs.p(50.0), "ms", None, Goal::None);
    report.put("2 commits + 1 fdatasync", floor, "ms", None, Goal::None);
    // The limit is the goal's whole right side: 1.5 of the floor and five milliseconds for everything else.
    let limit = GOAL * floor + GRACE_MS;
    report.put(
        "asked to started, idle, p50",
        latency.p(50.0),
        "ms",
        Some(limit),
        Goal::RatioAtMost(1.0),
    );
    report.put("asked to started, idle, p99", latency.p(99.0), "ms", None, Goal::None);
    Ok(())
}

/// One task on an idle platform; the next begins when this one has ended and everybody waits again.
async fn once(api: &Api, node: NodeId) -> anyhow::Result<Duration> {
    let asked = Clock::real().now();
    let mut task: TaskView = api.post(&format!("/v1/nodes/{node}/probe"), &json!({})).await?;
    while task.ended_at.is_none() {
        let path = format!("/v1/tasks/{}?changed_since={}&wait_s=20", task.id, task.version);
        task = api.get(&path).await?;
    }
    let started = task
        .started_at
        .ok_or_else(|| anyhow::anyhow!("{} never started", task.id))?;
    // The agent acknowledges, beats and asks again; then it is idle.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let took_ms = u64::try_from(started.since_ms(asked)).unwrap_or(0);
    Ok(Duration::from_millis(took_ms))
}

/// What the disk itself costs, for rows and records about as large.
struct Disk {
    conn: PgConnection,
    file: File,
}

impl Disk {
    async fn prepare(stand: &Stand) -> anyhow::Result<Self> {
        let mut conn = stand.postgres.superuser("postgres").connect().await?;
        conn.execute("create table commit_cost (id bigserial primary key, body bytea not null)")
            .await?;
        let file = sized(&stand.scratch.path().join("fdatasync"))?;
        Ok(Self { conn, file })
    }

    async fn commit(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        sqlx::query("insert into commit_cost (body) values ($1)")
            .bind(vec![7_u8; 1200])
            .execute(&mut self.conn)
            .await?;
        Ok(began.elapsed())
    }

    /// As the journal does it: into room that is there already.
    fn fdatasync(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        self.file.write_all(&[7; 1600])?;
        self.file.sync_data()?;
        Ok(began.elapsed())
    }
}

fn sized(path: &Path) -> anyhow::Result<File> {
    std::fs::write(path, vec![0; 4 << 20])?;
    let file = File::options().write(true).open(path)?;
    file.sync_all()?;
    Ok(file)
}
