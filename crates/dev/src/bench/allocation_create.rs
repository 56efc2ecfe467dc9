//! What it takes to rent something, over the public API: authorised, counted, reserved, signed, told and audited. Against
//! the very same transactions without us: the server's log tells, statement by statement and parameter by parameter,
//! what the API asks of it, and a copy of the database from before is told the same, at the same rate and by as many
//! clients. The limit leaves out what the API asks outside of that transaction (whose token is it, how does the new
//! allocation look) and what the relay and the sealer do about it. Workers are elsewhere: what they do is another bench's.

use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

use super::Place;
use super::bare::Bare;
use super::log::Transaction;
use super::lot::{self, Lot};
use super::pgbench::PgBench;
use super::sample::Sample;
use super::stand::Stand;
use super::tape::Tape;
use super::tenants::Tenants;
use crate::figures::{Goal, Report};

const EVERY: Duration = Duration::from_millis(20);
const PROJECTS: usize = 16;
const CLIENTS: usize = 8;
const ROUNDS: usize = 3;
/// Of each round, at the given rate and as fast as it goes.
const AT_RATE: usize = 400;
const AT_ONCE: usize = 240;
const WARM_UP: usize = 80;
/// Connections of the bare runs: as many as a process of ours writes with.
const CONNECTIONS: usize = 24;
/// Nodes that nobody rents from.
const SPARE: i32 = 8;
const COPY: &str = "before";

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let stand = Stand::start(place, "allocation-create", 1, |config| {
        // Nobody speaks for the twins.
        config.heartbeat_stale_s = 86_400;
    })
    .await?;
    let lot = Lot::open(&stand).await?;
    let all = ROUNDS * (AT_RATE + AT_ONCE);
    let spent = i32::try_from((WARM_UP + all + all / 8).div_ceil(8))?;
    lot.twins(&stand, spent + SPARE).await?;
    let projects = lot::projects(&stand, PROJECTS).await?;
    let stand = stand.keep_copy(COPY).await?;
    stand.platform.retire_worker();
    let pgbench = PgBench::prepare(&stand.postgres, stand.scratch.path().to_owned()).await?;
    let tenants = Tenants::new(&stand.api, projects);
    tenants.at_once(WARM_UP, CLIENTS).await?;
    let mut bare = Bare::new(recorded(&stand, &tenants, all).await?);
    // As many are free again as in the copy: whoever rents looks through all of them.
    lot.twins(&stand, spent).await?;
    let (mut ours, mut limit) = (Sample::default(), Sample::default());
    let (mut rates, mut limits) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.extend(tenants.at_rate(AT_RATE, EVERY).await?);
        let paced = bare.at_rate(&stand.postgres, COPY, AT_RATE, EVERY, CONNECTIONS);
        limit.extend(paced.await?);
        let began = Instant::now();
        tenants.at_once(AT_ONCE, CLIENTS).await?;
        rates.push(AT_ONCE as f64 / began.elapsed().as_secs_f64());
        limits.push(bare.by_pgbench(&pgbench, COPY, AT_ONCE, CLIENTS).await?);
    }
    stand.end().await?;
    put(report, [&ours, &limit], [mean(&rates), mean(&limits)]);
    Ok(())
}

fn put(report: &mut Report, [ours, limit]: [&Sample; 2], [rate, most]: [f64; 2]) {
    report.put("asked at 50/s", ours.len() as f64, "", None, Goal::None);
    let (p50, p99) = (limit.p(50.0), limit.p(99.0));
    report.put("create at 50/s, p50", ours.p(50.0), "ms", Some(p50), Goal::None);
    let most_p99 = Goal::RatioAtMost(4.0);
    report.put("create at 50/s, p99", ours.p(99.0), "ms", Some(p99), most_p99);
    report.put("clients", CLIENTS as f64, "", None, Goal::None);
    let least = Goal::RatioAtLeast(0.3);
    report.put("creates per second", rate, "/s", Some(most), least);
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// What the server is told by so many creates.
async fn recorded(stand: &Stand, tenants: &Tenants, count: usize) -> anyhow::Result<Vec<Transaction>> {
    let tape = Tape::start(&stand.postgres).await?;
    let mut made = Vec::new();
    // A few may have begun before the tape ran.
    tenants.at_once(count + count / 8, CLIENTS).await?;
    for mut transaction in tape.stop().await? {
        if transaction
            .iter()
            .any(|one| one.sql.starts_with("insert into allocation ("))
        {
            choose(&mut transaction)?;
            made.push(transaction);
        }
    }
    Ok(made)
}

/// Of several nodes a create takes one that nobody is busy with; here it is the one that was taken then, or the leases
/// that follow would be of another.
fn choose(transaction: &mut Transaction) -> anyhow::Result<()> {
    let leases = transaction.iter().find(|one| one.sql.contains("insert into lease"));
    let node = leases
        .and_then(|lease| lease.params.get(1)?.clone())
        .context("a lease")?;
    for one in transaction.iter_mut().filter(|one| one.sql.ends_with("skip locked")) {
        one.params = vec![Some(format!("{{{node}}}"))];
    }
    Ok(())
}
