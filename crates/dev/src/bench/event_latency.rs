//! From a commit in one api process until a reader hears of it over a stream at another: the relay is woken, gives the
//! event its place in the order and commits that; the other process is woken by NOTIFY, reads and tells. The wake-up itself
//! is measured beside every sample, on the same server.

use std::time::{Duration, Instant};

use base::{Actor, Db};
use model::id::ProjectId;
use serde_json::json;
use sqlx::postgres::PgListener;
use sqlx::{Connection, Executor, PgConnection};

use super::Place;
use super::sample::Sample;
use super::stand::Stand;
use crate::figures::{Goal, Report};

const SAMPLES: usize = 250;
const GOAL: f64 = 1.5;
const GRACE_MS: f64 = 10.0;
/// Between two samples everybody waits again.
const IDLE: Duration = Duration::from_millis(40);
const CHANNEL: &str = "bench_wake";

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let stand = Stand::start(place, "event-latency", 2, |_| {}).await?;
    let reader = stand.api.at(&stand.platform.public_urls[1])?;
    let opened = reader.tail("/v1/events?types=project.created", None).await?;
    let mut tail = opened.map_err(|refused| anyhow::anyhow!("no stream: {}", refused.status))?;
    let writer = stand.platform.apps[0].db.clone();
    let mut bell = Bell::hang(&writer).await?;
    let (mut latency, mut wakes) = (Sample::default(), Sample::default());
    for n in 0..SAMPLES {
        tokio::time::sleep(IDLE).await;
        let committed = tell(&writer, n).await?;
        let event = tail.event().await?;
        latency.put(committed.elapsed());
        anyhow::ensure!(event.data["name"] == name(n).as_str(), "another event: {event:?}");
        wakes.put(bell.ring().await?);
    }
    drop(tail);
    bell.sends.close().await?;
    drop(bell.hears);
    stand.end().await?;
    report.put("samples", latency.len() as f64, "", None, Goal::None);
    report.put("NOTIFY wake-up, p50", wakes.p(50.0), "ms", None, Goal::None);
    // The limit is the goal's whole right side: 1.5 wake-ups, and ten milliseconds for the stamp's commit and the rest.
    let limit = GOAL * wakes.p(50.0) + GRACE_MS;
    let p50 = latency.p(50.0);
    report.put(
        "committed to seen by a reader, p50",
        p50,
        "ms",
        Some(limit),
        Goal::RatioAtMost(1.0),
    );
    report.put(
        "committed to seen by a reader, p99",
        latency.p(99.0),
        "ms",
        None,
        Goal::None,
    );
    Ok(())
}

fn name(n: usize) -> String {
    format!("sample {n}")
}

/// The moment at which its writer knows that it is committed.
async fn tell(db: &Db, n: usize) -> anyhow::Result<Instant> {
    let project = ProjectId::new();
    let mut change = db.change(&Actor::system("bench"), "project.create", project).await?;
    change.event("project.created", project, json!({ "name": name(n) }));
    change.commit().await?;
    Ok(Instant::now())
}

/// A wake-up and nothing else: one connection rings, another hears.
struct Bell {
    sends: PgConnection,
    hears: PgListener,
}

impl Bell {
    async fn hang(db: &Db) -> anyhow::Result<Self> {
        let mut sends = PgConnection::connect_with(db.connect_options()).await?;
        sends.execute("set synchronous_commit = off").await?;
        let mut hears = PgListener::connect_with(db.bookkeeping()).await?;
        hears.listen(CHANNEL).await?;
        Ok(Self { sends, hears })
    }

    async fn ring(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let rung = sqlx::query("select pg_notify($1, '')")
            .bind(CHANNEL)
            .execute(&mut self.sends);
        let (rung, heard) = tokio::join!(rung, self.hears.recv());
        rung?;
        heard?;
        Ok(began.elapsed())
    }
}
