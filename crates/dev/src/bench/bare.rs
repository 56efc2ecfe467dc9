//! Transactions from a tape, run again by nobody in particular in a copy of the database as it was before them: each
//! statement prepared once per connection and executed with the parameters it had. Once at a given rate, and once by
//! pgbench as fast as it goes. Nothing is left out and nothing is thought about in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::db::managed::Managed;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::log::{Statement, Transaction};
use super::pgbench::PgBench;
use super::sample::Sample;

pub(super) struct Bare {
    /// Statement to name.
    names: BTreeMap<String, String>,
    transactions: std::vec::IntoIter<Transaction>,
}

impl Bare {
    pub(super) fn new(transactions: Vec<Transaction>) -> Self {
        let mut names = BTreeMap::new();
        for statement in transactions.iter().flatten().filter(|one| prepares(one)) {
            let next = format!("s{}", names.len());
            names.entry(statement.sql.clone()).or_insert(next);
        }
        Self {
            names,
            transactions: transactions.into_iter(),
        }
    }

    fn take(&mut self, count: usize) -> anyhow::Result<Vec<Transaction>> {
        let taken: Vec<_> = self.transactions.by_ref().take(count).collect();
        anyhow::ensure!(taken.len() == count, "{} of {count} transactions are left", taken.len());
        Ok(taken)
    }

    fn prepares(&self) -> impl Iterator<Item = String> {
        self.names.iter().map(|(sql, name)| format!("prepare {name} as {sql}"))
    }

    fn execute(&self, statement: &Statement) -> String {
        let Some(name) = self.names.get(&statement.sql) else {
            return statement.sql.clone();
        };
        let literal = |param: &Option<String>| match param {
            Some(text) => format!("'{}'", text.replace('\'', "''")),
            None => "null".to_owned(),
        };
        let params: Vec<String> = statement.params.iter().map(literal).collect();
        match params.is_empty() {
            true => format!("execute {name}"),
            false => format!("execute {name}({})", params.join(", ")),
        }
    }

    fn commands(&self, transaction: &Transaction) -> Vec<String> {
        let mut commands = vec!["begin".to_owned()];
        commands.extend(transaction.iter().map(|statement| self.execute(statement)));
        commands.push("commit".to_owned());
        commands
    }

    /// The next so many, one at each tick, each counted from its tick; so many connections take turns.
    pub(super) async fn at_rate(
        &mut self,
        postgres: &Managed,
        database: &str,
        count: usize,
        every: Duration,
        connections: usize,
    ) -> anyhow::Result<Sample> {
        let mut pool = Vec::new();
        for _ in 0..connections {
            let mut conn = postgres.superuser(database).connect().await?;
            for prepare in self.prepares() {
                conn.execute(AssertSqlSafe(prepare)).await?;
            }
            pool.push(conn);
        }
        let (pool, turns) = (
            Arc::new(Mutex::new(pool)),
            Arc::new(tokio::sync::Semaphore::new(connections)),
        );
        let work: Vec<Vec<String>> = self.take(count)?.iter().map(|one| self.commands(one)).collect();
        let mut running = JoinSet::new();
        let mut tick = Instant::now();
        for commands in work {
            tick += every;
            tokio::time::sleep_until(tick).await;
            running.spawn(one(pool.clone(), turns.clone(), commands, tick));
        }
        let mut sample = Sample::default();
        while let Some(ended) = running.join_next().await {
            sample.put(ended??);
        }
        for conn in pool.lock().await.drain(..) {
            conn.close().await?;
        }
        Ok(sample)
    }

    /// The next so many as fast as pgbench gets them done with so many clients, per second.
    pub(super) async fn by_pgbench(
        &mut self,
        pgbench: &PgBench,
        database: &str,
        count: usize,
        clients: usize,
    ) -> anyhow::Result<f64> {
        let each = count / clients;
        let mut script: String = self.prepares().map(|prepare| format!("{prepare};\n")).collect();
        for client in 0..clients {
            let word = if client == 0 { "if" } else { "elif" };
            script += &format!("\\{word} :client_id = {client}\n");
            for transaction in self.take(each)? {
                for command in self.commands(&transaction) {
                    script += &command;
                    script += ";\n";
                }
            }
        }
        script += "\\endif\n";
        let rounds = pgbench.once(database, &script, clients).await?;
        Ok(rounds * each as f64)
    }
}

/// Marks within a transaction are not prepared, and have no parameters.
fn prepares(statement: &Statement) -> bool {
    let word = statement.sql.split_whitespace().next().unwrap_or_default();
    !["savepoint", "rollback", "release"].contains(&word.to_ascii_lowercase().as_str())
}

type Pool = Arc<Mutex<Vec<PgConnection>>>;

async fn one(
    pool: Pool,
    turns: Arc<tokio::sync::Semaphore>,
    commands: Vec<String>,
    tick: Instant,
) -> anyhow::Result<Duration> {
    let _turn = turns.acquire().await?;
    let mut conn = pool
        .lock()
        .await
        .pop()
        .ok_or_else(|| anyhow::anyhow!("no connection"))?;
    for command in commands {
        conn.execute(AssertSqlSafe(command)).await?;
    }
    let took = tick.elapsed();
    pool.lock().await.push(conn);
    Ok(took)
}
