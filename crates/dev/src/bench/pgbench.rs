//! What the same PostgreSQL commits for nobody in particular: pgbench with as many clients, as many transactions per
//! round and rows about as large, in the same cluster, with the same settings. One statement per transaction, so that
//! it is the fairest limit there is: everything else that a round costs us is ours.

use std::path::PathBuf;

use anyhow::Context;
use base::db::managed::{Managed, SUPERUSER};
use sqlx::{ConnectOptions, Connection, Executor};

use crate::children::{Program, spawn};

const DATABASE: &str = "bare";

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

    /// Rounds per second of this many clients, each round of this many transactions.
    pub(super) async fn rounds_per_s(&self, clients: usize, transactions: usize, seconds: u64) -> anyhow::Result<f64> {
        let until = ["-M", "prepared", "-T", &seconds.to_string()];
        self.scripts_per_s(DATABASE, &round(transactions), clients, until).await
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
        let log = self.dir.join("pgbench.log");
        if log.exists() {
            std::fs::remove_file(&log)?;
        }
        let text = |path: &PathBuf| path.display().to_string();
        let args = [
            "-n",
            until[0],
            until[1],
            until[2],
            until[3],
            "-U",
            SUPERUSER,
            "-c",
            &clients.to_string(),
            "-j",
            "2",
            "-h",
            &text(&self.socket_dir),
            "-f",
            &text(&file),
            database,
        ];
        let program = Program {
            exe: self.program.clone(),
            args: args.map(str::to_owned).to_vec(),
            log: log.clone(),
        };
        let ended = tokio::task::spawn_blocking(move || spawn(&program)?.wait()).await??;
        let said = std::fs::read_to_string(&log)?;
        anyhow::ensure!(ended.success(), "pgbench: {said}");
        let tps = said.lines().find_map(|line| line.strip_prefix("tps = "));
        let tps = tps.and_then(|rest| rest.split(' ').next()?.parse().ok());
        tps.with_context(|| format!("pgbench said no rate: {said}"))
    }
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
