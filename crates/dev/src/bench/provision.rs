//! What a provision costs besides the host's own work: offered to a real executor on a real disk whose pretended machine
//! does everything at once, until the signed result is there. Each of its phases is durable, so the limit is what the
//! disk takes for as many syncs, measured between the provisions; how many those are is counted by strace.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use executor::{Options, Stop};
use host::pretend::{Pretend, Profile};
use model::outcome::{Outcome, ResultPayload};
use model::socket::{FromAgent, FromExecutor};

use super::Place;
use super::renter::Renter;
use super::sample::Sample;
use super::socket::Socket;
use super::stand::Stand;
use crate::children::{Program, spawn};
use crate::figures::{Goal, Report};
use crate::simnode::NodeDir;

const PROVISIONS: usize = 60;
const PATIENCE: Duration = Duration::from_secs(30);
const SYNCS_PER_ROUND: usize = 8;
const OWN_MS: f64 = 20.0;

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let stand = Stand::start(place, "provision", 1, |_| {}).await?;
    let (id, mut node) = stand.ready_node(place, "lender").await?;
    let renter = Renter::new(&stand, id).await?;
    let dir = node.dir.clone();
    let measured = tokio::task::spawn_blocking(move || {
        node.stop();
        measure(&dir, renter)
    });
    let Measured { took, syncs, sync } = measured.await??;
    stand.end().await?;
    report.put("syncs of one provision", syncs as f64, "", None, Goal::AtMost(25.0));
    report.put("one sync, p50", sync.p(50.0), "ms", None, Goal::None);
    let limit = syncs as f64 * sync.p(50.0);
    let most = 1.5 * limit + OWN_MS;
    let rounded = (most * 100.0).round() / 100.0;
    report.put("17 phases, p50", took.p(50.0), "ms", Some(limit), Goal::AtMost(rounded));
    report.put("17 phases, p99", took.p(99.0), "ms", Some(limit), Goal::None);
    Ok(())
}

struct Measured {
    took: Sample,
    syncs: usize,
    sync: Sample,
}

fn measure(dir: &NodeDir, renter: Renter) -> anyhow::Result<Measured> {
    let mut options: Options = dir.executor_options(Profile::H100x8)?;
    options.host = Pretend::in_memory(Profile::H100x8).host();
    options.limits.min_free_bytes = 0;
    let stop = Stop::new()?;
    let told = stop.clone();
    let executor = std::thread::spawn(move || executor::run(options, told));
    let measured = rounds(dir, renter);
    stop.stop();
    executor
        .join()
        .map_err(|_| anyhow::anyhow!("the executor panicked"))??;
    measured
}

fn rounds(dir: &NodeDir, mut renter: Renter) -> anyhow::Result<Measured> {
    let mut socket = Socket::connect(&dir.socket(), PATIENCE)?;
    let (mut took, mut sync) = (Sample::default(), Sample::default());
    let other = File::create(dir.path().join("sync"))?;
    other.write_all_at(&[0; 1 << 20], 0)?;
    other.sync_all()?;
    // The first makes files and warms caches.
    for n in 0..=PROVISIONS {
        let (come, go) = renter.tasks()?;
        let one = carry(&mut socket, come)?;
        carry(&mut socket, go)?;
        if n > 0 {
            took.put(one);
        }
        for at in 0..SYNCS_PER_ROUND {
            let began = Instant::now();
            other.write_all_at(&[n as u8; 2048], (at * 2048) as u64)?;
            other.sync_data()?;
            sync.put(began.elapsed());
        }
    }
    let (come, go) = renter.tasks()?;
    let counter = Counter::attach(dir.path())?;
    carry(&mut socket, come)?;
    let syncs = counter.count()?;
    carry(&mut socket, go)?;
    Ok(Measured { took, syncs, sync })
}

/// From the offer to the signed result; then it is acknowledged.
fn carry(socket: &mut Socket, offer: FromAgent) -> anyhow::Result<Duration> {
    let began = Instant::now();
    socket.send(&offer)?;
    let (task_id, result) = socket.wait(|said| match said {
        FromExecutor::Done { task_id, envelope, .. } => Some(Ok((task_id, envelope))),
        FromExecutor::NotTaken { code, .. } => Some(Err(anyhow::anyhow!("the executor refuses: {code}"))),
        _ => None,
    })??;
    let took = began.elapsed();
    let result: ResultPayload = serde_json::from_slice(&result.payload_unverified().map_err(anyhow::Error::msg)?)?;
    anyhow::ensure!(
        result.outcome == Outcome::Succeeded,
        "{:?} {:?}",
        result.code,
        result.detail
    );
    socket.send(&FromAgent::Acked { task_id, status: 200 })?;
    Ok(took)
}

/// strace at this very process, which is the executor too.
struct Counter {
    strace: std::process::Child,
    log: std::path::PathBuf,
}

impl Counter {
    fn attach(dir: &Path) -> anyhow::Result<Self> {
        let (log, said) = (dir.join("syncs"), dir.join("strace.log"));
        let text = |path: &Path| path.display().to_string();
        let pid = std::process::id().to_string();
        let args = [
            "-f",
            "-e",
            "trace=fdatasync,fsync",
            "-e",
            "signal=none",
            "-o",
            &text(&log),
            "-p",
            &pid,
        ];
        let args = args.map(str::to_owned).to_vec();
        let strace = spawn(&Program {
            exe: "strace".into(),
            args,
            log: said.clone(),
        })
        .context("strace")?;
        let until = Instant::now() + PATIENCE;
        while !std::fs::read_to_string(&said)?.contains(" attached") {
            anyhow::ensure!(Instant::now() < until, "strace does not attach");
            std::thread::park_timeout(Duration::from_millis(5));
        }
        Ok(Self { strace, log })
    }

    fn count(mut self) -> anyhow::Result<usize> {
        let pid = rustix::process::Pid::from_child(&self.strace);
        rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        self.strace.wait()?;
        let seen = std::fs::read_to_string(&self.log)?;
        let begun = |line: &&str| line.contains("sync(");
        Ok(seen.lines().filter(begun).count())
    }
}
