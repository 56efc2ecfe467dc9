//! What the server was told, word for word: its own log of every statement with every parameter, cut into transactions.
//! One that was not logged from its beginning to its end is left out, never guessed.

use std::path::PathBuf;

use anyhow::Context;
use base::db::managed::Managed;
use sqlx::{ConnectOptions, Connection, Executor, PgConnection};

use super::log::{Transaction, transactions};

/// A log that is being written.
pub(super) struct Tape {
    conn: PgConnection,
    log: PathBuf,
    from: usize,
}

impl Tape {
    pub(super) async fn start(postgres: &Managed) -> anyhow::Result<Self> {
        let mut conn = postgres.superuser("postgres").connect().await?;
        // The log lies beside the socket, where the cluster's owner keeps it.
        let data: String = sqlx::query_scalar("show data_directory").fetch_one(&mut conn).await?;
        let dir = PathBuf::from(data);
        let log = dir.parent().context("a directory")?.join("log/postgres.log");
        let from = std::fs::read(&log)?.len();
        conn.execute("alter system set log_line_prefix = '%p '").await?;
        conn.execute("alter system set log_statement = 'all'").await?;
        conn.execute("select pg_reload_conf()").await?;
        Ok(Self { conn, log, from })
    }

    /// All transactions that were begun and committed meanwhile.
    pub(super) async fn stop(mut self) -> anyhow::Result<Vec<Transaction>> {
        self.conn.execute("alter system reset log_statement").await?;
        self.conn.execute("select pg_reload_conf()").await?;
        self.conn.close().await?;
        let all = std::fs::read(&self.log)?;
        let text = String::from_utf8_lossy(all.get(self.from..).context("the log was cut")?);
        Ok(transactions(&text))
    }
}
