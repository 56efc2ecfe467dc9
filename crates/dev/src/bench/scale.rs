//! What ten thousand nodes cost one api process that they all wait on: memory, processor time and queries while
//! nothing happens, the time until all are back after a kill -9, and until the last one has heard what all are to
//! hear. The limit for memory is the barest server that could hold as many, measured in the same run.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use base::db::managed::{DATABASE, Managed, Options};
use base::metrics::DATABASE_USES;
use sqlx::{Connection, PgConnection};
use tokio::time::{Instant, sleep};

use super::Place;
use super::stand::Scratch;
use crate::children::{Kept, Program};
use crate::crowd::{Crowd, Order, Stats, Wish, publish_again, seed};
use crate::daemon::{Daemon, free_ports};
use crate::figures::{Goal, Report};
use crate::vitals::{cpu, postgres_cpu, resident_kib};

/// How long "nothing happens" is looked at.
const IDLE: Duration = Duration::from_secs(60);
/// As in production.
const HOLD_S: u64 = 38;
/// New nodes a second: each opens a session, which is a decision with an audit row.
const ARRIVALS: u64 = 250;
const PATIENCE: Duration = Duration::from_secs(600);
/// Open files of a server that are not a node's connection.
const OTHER_FILES: u64 = 1000;

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let (exe, nodes) = (place.exe.as_path(), place.nodes);
    let scratch = Scratch::make(place, "scale")?;
    let scratch = scratch.path();
    let most = base::open_files::raise().saturating_sub(OTHER_FILES);
    if most < nodes {
        println!("only {most} instead of {nodes} nodes: a process may not have more files open here");
    }
    let nodes = nodes.min(most);
    let postgres = Managed::start(Options::new(scratch.join("pg"), None)).await?;
    let urls = (postgres.owner_url(), postgres.app_url());
    let settings = [("probe_every_s", "86400")];
    let daemon = Daemon::start(exe, scratch, urls, &settings).await?;
    let bench = Bench {
        exe,
        scratch,
        nodes,
        daemon: &daemon,
        postgres: &postgres,
        members: scratch.join("members"),
    };
    let outcome = bench.run(report).await;
    daemon.stop().await?;
    postgres.stop().await?;
    outcome
}

struct Bench<'a> {
    exe: &'a Path,
    scratch: &'a Path,
    nodes: u64,
    daemon: &'a Daemon,
    postgres: &'a Managed,
    members: PathBuf,
}

/// What a server was seen to do over some time.
struct Seen {
    took_s: f64,
    cpu_s: f64,
    postgres_cpu_s: f64,
    uses: f64,
    transactions: f64,
    polls: f64,
}

impl Seen {
    fn cpu_percent(&self) -> f64 {
        100.0 * self.cpu_s / self.took_s
    }
}

impl Bench<'_> {
    async fn run(&self, report: &mut Report) -> anyhow::Result<()> {
        sleep(Duration::from_secs(3)).await;
        let empty_kib = resident_kib(self.daemon.pid()?)?;
        let few = self.few().await?;
        self.let_in(report).await?;
        let mut crowd = self.everybody(report).await?;
        let idle = self.watch(&mut crowd, IDLE).await?;
        let held_kib = (resident_kib(self.daemon.pid()?)? - empty_kib) / self.nodes as f64;
        self.queries(report, &few, &idle);
        self.wake_all(report, &mut crowd).await?;
        self.restart(report, &mut crowd).await?;
        self.busy(report, &mut crowd).await?;
        let failures = crowd.stats().await?.failures;
        println!("calls that failed, restart included: {failures:?}");
        drop(crowd);
        let (bare_kib, bare_cpu) = self.bare().await?;
        report.put(
            "memory for each node that waits",
            held_kib,
            "KiB",
            Some(bare_kib),
            Goal::RatioAtMost(1.25),
        );
        report.put(
            "idle, waits only: processor",
            idle.cpu_percent(),
            "% of a core",
            Some(bare_cpu),
            Goal::AtMost(5.0),
        );
        Ok(())
    }

    /// The handful has been let in before.
    async fn let_in(&self, report: &mut Report) -> anyhow::Result<()> {
        let began = Instant::now();
        let rest = self.handful()..usize::try_from(self.nodes)?;
        seed(&self.daemon.fleet, rest, &self.members).await?;
        told(report, "nodes", self.nodes as f64, "");
        let took = began.elapsed().as_secs_f64();
        told(report, "nodes let in, with a certificate each", took, "s");
        Ok(())
    }

    fn handful(&self) -> usize {
        usize::try_from(self.nodes / 50).unwrap_or(usize::MAX).max(10)
    }

    /// Memory for each node, and processor time, of the barest server.
    async fn bare(&self) -> anyhow::Result<(f64, f64)> {
        let [port] = free_ports()?;
        let listen = SocketAddr::from(([127, 0, 0, 1], port));
        let args = [
            "bare-server".to_owned(),
            format!("--keys-dir={}", self.daemon.keys_dir.display()),
        ];
        let mut args = args.to_vec();
        args.extend([format!("--listen={listen}"), format!("--hold-s={HOLD_S}")]);
        let mut server = Kept::start(Program {
            exe: self.exe.to_owned(),
            args,
            log: self.scratch.join("bare.log"),
        });
        until_listening(listen).await?;
        let pid = server.pid().context("it does not run")?;
        let empty_kib = resident_kib(pid)?;
        let wish = Wish {
            url: Some(format!("https://{listen}")),
            ramp_ms: self.nodes * 1000 / (2 * ARRIVALS),
            ..Wish::default()
        };
        let mut crowd = Crowd::start(self.exe, &self.members, &wish).await?;
        let nodes = self.nodes;
        crowd
            .until("all wait", PATIENCE, |stats| {
                stats.waiting >= nodes && stats.sessions >= nodes
            })
            .await?;
        // Every one has been answered since: what the handshakes needed is given back by now.
        sleep(Duration::from_secs(HOLD_S)).await;
        let (began, then) = (Instant::now(), cpu(pid)?);
        sleep(IDLE).await;
        let cpu_s = (cpu(pid)? - then).as_secs_f64();
        let kib = (resident_kib(pid)? - empty_kib) / self.nodes as f64;
        let percent = 100.0 * cpu_s / began.elapsed().as_secs_f64();
        drop(crowd);
        tokio::task::spawn_blocking(move || server.stop()).await?;
        Ok((kib, percent))
    }

    /// The same look with a handful of nodes: what the process does by itself.
    async fn few(&self) -> anyhow::Result<Seen> {
        let count = self.handful();
        seed(&self.daemon.fleet, 0..count, &self.members).await?;
        let mut crowd = Crowd::start(self.exe, &self.members, &Wish::default()).await?;
        self.daemon.until_held(count as u64, PATIENCE).await?;
        self.settled(count as u64).await?;
        self.watch(&mut crowd, IDLE / 2).await
    }

    /// Everybody is proved and nothing is asked of anybody: what comes now is what nothing costs.
    async fn settled(&self, nodes: u64) -> anyhow::Result<()> {
        let mut conn = PgConnection::connect_with(&self.postgres.superuser(DATABASE)).await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (ready, open): (i64, i64) = sqlx::query_as(
                "select (select count(*) from node where state = 'ready'),
                        (select count(*) from task where state in ('queued', 'dispatched', 'started', 'unknown'))",
            )
            .fetch_one(&mut conn)
            .await?;
            if (u64::try_from(ready)?, open) == (nodes, 0) {
                return Ok(conn.close().await?);
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "{ready} of {nodes} are ready, {open} tasks are open"
            );
            sleep(Duration::from_millis(500)).await;
        }
    }

    async fn everybody(&self, report: &mut Report) -> anyhow::Result<Crowd> {
        let wish = Wish {
            ramp_ms: self.nodes * 1000 / ARRIVALS,
            ..Wish::default()
        };
        let began = Instant::now();
        let crowd = Crowd::start(self.exe, &self.members, &wish).await?;
        self.daemon.until_held(self.nodes, PATIENCE).await?;
        told(
            report,
            "all waiting, each with a new session",
            began.elapsed().as_secs_f64(),
            "s",
        );
        self.settled(self.nodes).await?;
        // Everybody is answered once more, and what arriving needed is given back.
        sleep(Duration::from_secs(HOLD_S)).await;
        Ok(crowd)
    }

    async fn watch(&self, crowd: &mut Crowd, time: Duration) -> anyhow::Result<Seen> {
        let pid = self.daemon.pid()?;
        let before = (Instant::now(), cpu(pid)?, self.postgres_cpu()?, self.uses().await?);
        let (transactions, polls) = (self.transactions().await?, crowd.stats().await?.answered);
        sleep(time).await;
        Ok(Seen {
            took_s: before.0.elapsed().as_secs_f64(),
            cpu_s: (cpu(pid)? - before.1).as_secs_f64(),
            postgres_cpu_s: self.postgres_cpu()? - before.2,
            uses: self.uses().await? - before.3,
            transactions: self.transactions().await? - transactions,
            polls: (crowd.stats().await?.answered - polls) as f64,
        })
    }

    fn queries(&self, report: &mut Report, few: &Seen, idle: &Seen) {
        let rate = |seen: &Seen| seen.uses / seen.took_s;
        told(
            report,
            "idle: uses of the database, by a fiftieth of them",
            rate(few),
            "/s",
        );
        told(report, "idle: uses of the database, by all", rate(idle), "/s");
        told(
            report,
            "idle: transactions as PostgreSQL counts them",
            idle.transactions / idle.took_s,
            "/s",
        );
        told(report, "idle: polls", idle.polls / idle.took_s, "/s");
        let more = (rate(idle) - rate(few)).max(0.0);
        // A query for each poll would be more than one.
        report.put(
            "idle: uses of the database for each node, in a minute",
            60.0 * more / self.nodes as f64,
            "",
            None,
            Goal::AtMost(0.05),
        );
        let postgres = 100.0 * idle.postgres_cpu_s / idle.took_s;
        told(report, "idle: processor, PostgreSQL", postgres, "% of a core");
    }

    async fn wake_all(&self, report: &mut Report, crowd: &mut Crowd) -> anyhow::Result<()> {
        let mut worst_s: f64 = 0.0;
        for _ in 0..3 {
            // Between two, everybody gets back to waiting.
            self.daemon.until_held(self.nodes, PATIENCE).await?;
            sleep(Duration::from_secs(3)).await;
            let began = self.daemon.fleet.app.clock.now();
            let version = publish_again(&self.daemon.fleet).await?;
            let told_all = |stats: &Stats| (stats.manifest, stats.manifest_known_by) == (version, self.nodes);
            let stats = crowd.until("everybody is told", PATIENCE, told_all).await?;
            let last = stats.manifest_last_at.context("nobody was told")?;
            worst_s = worst_s.max(last.since_ms(began) as f64 / 1000.0);
        }
        report.put(
            "wake-all: last answer, worst of three",
            worst_s,
            "s",
            None,
            Goal::AtMost(1.0),
        );
        Ok(())
    }

    async fn restart(&self, report: &mut Report, crowd: &mut Crowd) -> anyhow::Result<()> {
        let before = crowd.stats().await?;
        let starts = self.daemon.process.starts();
        let began = Instant::now();
        self.daemon.process.kill();
        while self.daemon.process.starts() == starts {
            sleep(Duration::from_millis(5)).await;
        }
        self.daemon.until_ready(PATIENCE).await?;
        told(report, "after kill -9: ready again", began.elapsed().as_secs_f64(), "s");
        self.daemon.until_held(self.nodes, PATIENCE).await?;
        let all_s = began.elapsed().as_secs_f64();
        report.put("after kill -9: all waiting again", all_s, "s", None, Goal::AtMost(30.0));
        let again = crowd.stats().await?.sessions - before.sessions;
        report.put(
            "after kill -9: sessions opened anew",
            again as f64,
            "",
            None,
            Goal::AtMost(0.0),
        );
        Ok(())
    }

    /// What it is like when nodes report, too.
    async fn busy(&self, report: &mut Report, crowd: &mut Crowd) -> anyhow::Result<()> {
        sleep(Duration::from_secs(HOLD_S)).await;
        let rhythms = [
            ("with self-probes every minute", Order::SelfProbe { every_s: 60 }),
            ("and heartbeats every ten seconds", Order::Heartbeat { every_s: 10 }),
        ];
        for (name, order) in rhythms {
            crowd.tell(order).await?;
            sleep(Duration::from_secs(10)).await;
            let seen = self.watch(crowd, IDLE).await?;
            told(report, &format!("{name}: processor"), seen.cpu_percent(), "% of a core");
            told(
                report,
                &format!("{name}: uses of the database"),
                seen.uses / seen.took_s,
                "/s",
            );
        }
        Ok(())
    }

    async fn uses(&self) -> anyhow::Result<f64> {
        self.daemon.metric(DATABASE_USES).await
    }

    async fn transactions(&self) -> anyhow::Result<f64> {
        let mut conn = PgConnection::connect_with(&self.postgres.superuser(DATABASE)).await?;
        let count: i64 =
            sqlx::query_scalar("select xact_commit + xact_rollback from pg_stat_database where datname = $1")
                .bind(DATABASE)
                .fetch_one(&mut conn)
                .await?;
        conn.close().await?;
        Ok(count as f64)
    }

    /// Of the server and of all its processes that live now.
    fn postgres_cpu(&self) -> anyhow::Result<f64> {
        Ok(postgres_cpu(self.scratch)?.as_secs_f64())
    }
}

fn told(report: &mut Report, name: &str, value: f64, unit: &'static str) {
    report.put(name, value, unit, None, Goal::None);
}

async fn until_listening(address: SocketAddr) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while tokio::net::TcpStream::connect(address).await.is_err() {
        anyhow::ensure!(Instant::now() < deadline, "{address} does not listen");
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
