//! What the same PostgreSQL commits for nobody in particular: pgbench with as many clients, in the same cluster, with the
//! same settings. Its own transaction (change a row of an account, read it, change its teller and its branch, add a line to
//! a history), with more branches than clients; the same without teller and branch (`-N`); and beside them the least that
//! a transaction can be: one statement on a row of our size.

use std::path::PathBuf;

use anyhow::Context;
use base::db::managed::{Managed, SUPERUSER};
use sqlx::{ConnectOptions, Connection, Executor};

use crate::children::{Program, spawn};

const DATABASE: &str = "bare";

/// pgbench's own transactions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Own {
    Whole,
    /// Without the rows that several clients may want at once.
    Simple,
}

pub(super) struct PgBench {
    program: PathBuf,
    socket_dir: PathBuf,
    dir: PathBuf,
}

impl PgBench {
    pub(super) async fn prepare(postgres: &Managed, dir: PathBuf) -> anyhow::Result<Self> {
        let mut conn = postgres.superuser("postgres").connect().await?;
        let bin_dir: String = sqlx::query_scalar("select setting from pg_config where name = 'BINDIR'")
            .fetch_one(&mut conn)
            .await?;
        conn.execute("create database bare").await?;
        conn.close().await?;
        let mut conn = postgres.superuser(DATABASE).connect().await?;
        conn.execute(
            "create table round (
                 id uuid primary key default gen_random_uuid(), node int not null, state text not null,
                 envelope bytea not null, fence bigint, result bytea, at timestamptz not null default now());
             create index on round (node) where state = 'queued';
             create sequence fence",
        )
        .await?;
        conn.close().await?;
        let program = PathBuf::from(bin_dir).join("pgbench");
        anyhow::ensure!(program.exists(), "pgbench is not installed beside PostgreSQL");
        Ok(Self {
            program,
            socket_dir: postgres.socket_dir().to_owned(),
            dir,
        })
    }

    /// Rows for pgbench's own transaction, more than its clients meet at once.
    pub(super) async fn fill(&self) -> anyhow::Result<()> {
        self.say(&["-i", "-q", "-s", "40", DATABASE]).await.map(drop)
    }

    /// Transactions of pgbench's own per second.
    pub(super) async fn own_per_s(&self, own: Own, clients: usize, seconds: u64) -> anyhow::Result<f64> {
        let (clients, seconds) = (clients.to_string(), seconds.to_string());
        let script = match own {
            Own::Whole => "tpcb-like",
            Own::Simple => "simple-update",
        };
        let args = [
            "-n", "-b", script, "-M", "prepared", "-j", "2", "-c", &clients, "-T", &seconds,
        ];
        tps(&self.say(&[&args[..], &[DATABASE]].concat()).await?)
    }

    /// Rounds per second of this many clients, each round of this many transactions of one statement.
    pub(super) async fn rounds_per_s(&self, clients: usize, transactions: usize, seconds: u64) -> anyhow::Result<f64> {
        let script = round(transactions);
        self.again_and_again(DATABASE, &script, clients, seconds).await
    }

    /// A script of one's own, run by so many clients in another database for so long; scripts per second.
    pub(super) async fn again_and_again(
        &self,
        database: &str,
        script: &str,
        clients: usize,
        seconds: u64,
    ) -> anyhow::Result<f64> {
        let until = ["-M", "prepared", "-T", &seconds.to_string()];
        self.scripts_per_s(database, script, clients, until).await
    }

    /// A script of one's own, run once by each of this many clients in another database; scripts per second.
    pub(super) async fn once(&self, database: &str, script: &str, clients: usize) -> anyhow::Result<f64> {
        let until = ["-M", "simple", "-t", "1"];
        self.scripts_per_s(database, script, clients, until).await
    }

    async fn scripts_per_s(
        &self,
        database: &str,
        script: &str,
        clients: usize,
        until: [&str; 4],
    ) -> anyhow::Result<f64> {
        let file = self.dir.join("round.sql");
        std::fs::write(&file, script)?;
        let (clients, file) = (clients.to_string(), file.display().to_string());
        let args = [&["-n"], &until[..], &["-c", &clients, "-j", "2", "-f", &file, database]].concat();
        tps(&self.say(&args).await?)
    }

    async fn say(&self, args: &[&str]) -> anyhow::Result<String> {
        let log = self.dir.join("pgbench.log");
        if log.exists() {
            std::fs::remove_file(&log)?;
        }
        let socket_dir = self.socket_dir.display().to_string();
        let args = [&["-U", SUPERUSER, "-h", &socket_dir], args].concat();
        let program = Program {
            exe: self.program.clone(),
            args: args.into_iter().map(str::to_owned).collect(),
            log: log.clone(),
        };
        let ended = tokio::task::spawn_blocking(move || spawn(&program)?.wait()).await??;
        let said = std::fs::read_to_string(&log)?;
        anyhow::ensure!(ended.success(), "pgbench: {said}");
        Ok(said)
    }
}

fn tps(said: &str) -> anyhow::Result<f64> {
    let tps = said.lines().find_map(|line| line.strip_prefix("tps = "));
    let tps = tps.and_then(|rest| rest.split(' ').next()?.parse().ok());
    tps.with_context(|| format!("pgbench said no rate: {said}"))
}

/// Queued, then changed as often as there are further transactions; the last one brings a result.
fn round(transactions: usize) -> String {
    let mut script = "insert into round (node, state, envelope)
        values (:client_id, 'queued', convert_to(repeat('e', 1200), 'UTF8')) returning id \\gset\n"
        .to_owned();
    for n in 1..transactions {
        script += if n + 1 == transactions {
            "update round set state = 'done', result = convert_to(repeat('r', 1000), 'UTF8') where id = :id;\n"
        } else {
            "update round set state = 'dispatched', fence = nextval('fence') where id = :id;\n"
        };
    }
    script
}
