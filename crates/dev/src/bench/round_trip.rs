//! Durable task round trips per second: asked for over the public API, signed, claimed by a held wait over mutual TLS,
//! answered with a signed result that lands; nothing is switched off. Against what the same PostgreSQL commits for
//! pgbench's own transaction with as many of them per round, in turns with it, so that both meet the same machine. Told
//! beside it: the same for pgbench's shorter transaction (`-N`) and for transactions of a single statement, which is more
//! than any use of a database can do; how fast pgbench writes no more than the rows of a round trip (`rows.sql`), which is
//! the most that any program could do that leaves what ours leaves; and what a round trip costs the processor.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::Clock;
use model::api::TaskView;
use serde_json::json;
use sqlx::PgConnection;
use sqlx::{ConnectOptions, Connection};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::Place;
use super::pgbench::{Own, PgBench};
use super::puppet::Puppet;
use super::sample::Sample;
use super::stand::Stand;
use crate::api::Api;
use crate::figures::{Goal, Report};
use crate::vitals::{cpu, postgres_cpu};

const CLIENTS: usize = 32;
const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(8);
const GOAL: f64 = 0.5;
/// A copy of the database for whoever only writes rows.
const COPY: &str = "rows";
const ROWS: &str = include_str!("rows.sql");

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let stand = Stand::start(place, "round-trip", 1, |_| {}).await?;
    let bare = PgBench::prepare(&stand.postgres, stand.scratch.path().to_owned()).await?;
    bare.fill().await?;
    let mut puppets = Vec::new();
    for n in 0..CLIENTS {
        puppets.push(Arc::new(Puppet::awake(&stand.api, &format!("puppet-{n}")).await?));
    }
    let mut conn = stand.postgres.superuser(base::db::managed::DATABASE).connect().await?;
    measure(&puppets, &stand.api, Duration::from_secs(2)).await?; // statements prepared, caches warm
    let (mut ours, mut trips) = (Vec::new(), Sample::default());
    let (mut commits, mut simple, mut statements) = (Vec::new(), Vec::new(), Vec::new());
    let mut spent = Spent::default();
    let mut done = 0;
    for _ in 0..ROUNDS {
        let before = Spent::read(&mut conn, stand.scratch.path()).await?;
        let measured = measure(&puppets, &stand.api, ROUND).await?;
        spent.add(&before, &Spent::read(&mut conn, stand.scratch.path()).await?);
        done += measured.trips.len();
        ours.push(measured.trips.len() as f64 / measured.took.as_secs_f64());
        trips.extend(measured.trips);
        let transactions = (spent.writes as f64 / done as f64).round() as usize;
        commits.push(bare.own_per_s(Own::Whole, CLIENTS, ROUND.as_secs()).await?);
        simple.push(bare.own_per_s(Own::Simple, CLIENTS, ROUND.as_secs()).await?);
        statements.push(bare.rounds_per_s(CLIENTS, transactions, ROUND.as_secs()).await?);
    }
    conn.close().await?;
    let stand = stand.keep_copy(COPY).await?;
    let rows = bare.again_and_again(COPY, ROWS, CLIENTS, ROUND.as_secs()).await?;
    stand.end().await?;
    let per_trip = |count: u64| count as f64 / done as f64;
    let (value, commits) = (mean(&ours), mean(&commits));
    let limit = commits / per_trip(spent.writes);
    report.put("clients", CLIENTS as f64, "", None, Goal::None);
    report.put("pgbench, transactions per second", commits, "/s", None, Goal::None);
    report.put(
        "pgbench -N, transactions per second",
        mean(&simple),
        "/s",
        None,
        Goal::None,
    );
    report.put(
        "round trips per second",
        value,
        "/s",
        Some(limit),
        Goal::RatioAtLeast(GOAL),
    );
    let shorter = mean(&simple) / per_trip(spent.writes);
    report.put("against pgbench -N", value, "/s", Some(shorter), Goal::None);
    report.put(
        "against transactions of one statement",
        value,
        "/s",
        Some(mean(&statements)),
        Goal::None,
    );
    report.put("its rows alone, by pgbench", rows, "/s", Some(limit), Goal::None);
    report.put("against its rows alone", value, "/s", Some(rows), Goal::None);
    report.put(
        "write transactions per round trip",
        per_trip(spent.writes),
        "",
        None,
        Goal::None,
    );
    report.put(
        "all transactions per round trip",
        per_trip(spent.commits),
        "",
        None,
        Goal::None,
    );
    let cpu_ms = |spent: Duration| spent.as_secs_f64() * 1000.0 / done as f64;
    let (postgres, others) = (cpu_ms(spent.postgres), cpu_ms(spent.others));
    report.put("processor per round trip: PostgreSQL", postgres, "ms", None, Goal::None);
    report.put(
        "processor per round trip: ours, clients and nodes",
        others,
        "ms",
        None,
        Goal::None,
    );
    report.put("round trip, p50", trips.p(50.0), "ms", None, Goal::None);
    report.put("round trip, p99", trips.p(99.0), "ms", None, Goal::None);
    Ok(())
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// What the server has done since it began, and what it cost: transactions that wrote something have a number, others do
/// not.
#[derive(Default)]
struct Spent {
    writes: u64,
    commits: u64,
    postgres: Duration,
    /// The platform, its clients and its nodes are one process here.
    others: Duration,
}

impl Spent {
    async fn read(conn: &mut PgConnection, scratch: &Path) -> anyhow::Result<Self> {
        let (writes, commits): (i64, i64) = sqlx::query_as(
            "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
                    (select xact_commit from pg_stat_database where datname = current_database())",
        )
        .fetch_one(conn)
        .await?;
        Ok(Self {
            writes: u64::try_from(writes)?,
            commits: u64::try_from(commits)?,
            postgres: postgres_cpu(scratch)?,
            others: cpu(rustix::process::getpid())?,
        })
    }

    fn add(&mut self, before: &Self, after: &Self) {
        self.writes += after.writes - before.writes;
        self.commits += after.commits - before.commits;
        self.postgres += after.postgres.saturating_sub(before.postgres);
        self.others += after.others.saturating_sub(before.others);
    }
}

struct Measured {
    trips: Vec<Duration>,
    took: Duration,
}

/// Every client asks for a probe of its node, and asks again once the result has landed.
async fn measure(puppets: &[Arc<Puppet>], api: &Api, during: Duration) -> anyhow::Result<Measured> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    let began = Instant::now();
    for puppet in puppets {
        let (puppet, api, stop) = (puppet.clone(), api.at(api.url())?, stop.clone());
        clients.spawn(client(puppet, api, stop));
    }
    tokio::time::sleep(during).await;
    stop.store(true, Ordering::SeqCst);
    let mut trips = Vec::new();
    while let Some(ended) = clients.join_next().await {
        trips.extend(ended??);
    }
    Ok(Measured {
        trips,
        took: began.elapsed(),
    })
}

async fn client(puppet: Arc<Puppet>, api: Api, stop: Arc<AtomicBool>) -> anyhow::Result<Vec<Duration>> {
    let landed = Arc::new((AtomicU64::new(0), Notify::new()));
    let node = tokio::spawn(node(puppet.clone(), landed.clone()));
    let path = format!("/v1/nodes/{}/probe", puppet.id);
    let mut trips = Vec::new();
    while !stop.load(Ordering::SeqCst) && !node.is_finished() {
        let (count, bell) = (landed.0.load(Ordering::SeqCst), landed.1.notified());
        tokio::pin!(bell);
        bell.as_mut().enable();
        let began = Instant::now();
        let _: TaskView = api.post(&path, &json!({})).await?;
        while landed.0.load(Ordering::SeqCst) == count && !node.is_finished() {
            // The node may have failed meanwhile; then nothing lands any more.
            drop(tokio::time::timeout(Duration::from_secs(1), bell.as_mut()).await);
            bell.set(landed.1.notified());
            bell.as_mut().enable();
        }
        trips.push(began.elapsed());
    }
    if node.is_finished() {
        node.await??;
    } else {
        node.abort();
    }
    Ok(trips)
}

/// The node's half: wait, do nothing, answer.
async fn node(puppet: Arc<Puppet>, landed: Arc<(AtomicU64, Notify)>) -> anyhow::Result<()> {
    let clock = Clock::real();
    loop {
        for task in puppet.wait().await? {
            puppet.land(&task, clock.now()).await?;
            landed.0.fetch_add(1, Ordering::SeqCst);
            landed.1.notify_waiters();
        }
    }
}
