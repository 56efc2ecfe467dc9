//! The database: two pools to one PostgreSQL. Readers get sessions that the server itself keeps read-only; writers
//! are reached through `change` (tx.rs), which cannot forget event and audit row, or through `bookkeeping`. Processes
//! log in as `gpuaas_app`, which owns nothing; migrations run as `gpuaas_owner`.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgPool, Postgres, Transaction};

use crate::clock::Clock;
use crate::metrics::DATABASE_USES;
use crate::tx::Limiter;
use crate::wake::Wake;

pub mod managed;
pub mod migrate;
pub mod migrations;
pub mod roles;
pub mod schema;

pub const OWNER: &str = "gpuaas_owner";
pub const APP: &str = "gpuaas_app";
/// Put on by the audit sealer for one transaction at a time.
pub const SEALER: &str = "gpuaas_sealer";
/// What sessions that can only read call themselves.
pub(crate) const READER: &str = "gpuaasd reader";

/// Connections for reading and for writing that a process opens at most, when it needs them. Commits that wait for the
/// disk together cost one wait, so writers may be many; two replicas still fit into a server's usual hundred.
const READERS: u32 = 12;
const WRITERS: u32 = 24;
/// A connection that was used just now is not asked whether it lives: that would double the way to the server for
/// every short query. One that has died meanwhile fails its first user, as it would have a moment later.
const TRUSTED: Duration = Duration::from_secs(1);
/// How long a request waits for a connection before it is told that the database is busy.
const ACQUIRE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct Db {
    /// Shared: a handle is cloned for every request.
    options: Arc<PgConnectOptions>,
    writer: PgPool,
    reader: PgPool,
    clock: Clock,
    wake: Wake,
    refusals: Limiter,
}

impl Db {
    /// Connects as the role that `url` names and makes sure that the server answers.
    /// `postgres:///gpuaas?host=/dir&user=gpuaas_app` is a Unix socket.
    pub async fn connect(url: &str, clock: Clock) -> sqlx::Result<Self> {
        let db = Self::pools(PgConnectOptions::from_str(url)?, clock, READERS, WRITERS);
        sqlx::query("select 1").execute(&db.writer).await?;
        Ok(db)
    }

    /// Pools of at most `most` connections each, opened when first used.
    pub fn lazy(options: PgConnectOptions, clock: Clock, most: u32) -> Self {
        Self::pools(options, clock, most, most)
    }

    fn pools(options: PgConnectOptions, clock: Clock, readers: u32, writers: u32) -> Self {
        // No statement and no lock is waited for longer than a person would wait for the answer.
        let options = options.application_name("gpuaasd").options([
            ("statement_timeout", "30s"),
            ("lock_timeout", "10s"),
            ("idle_in_transaction_session_timeout", "60s"),
            // Compiling a plan never pays for rows by the dozen.
            ("jit", "off"),
            // No head has to move. Otherwise, what is planned once while a table is still empty reads all of it for a single
            // row, until somebody counts it.
            ("random_page_cost", "1.1"),
        ]);
        let pool = |most| {
            PgPoolOptions::new()
                .max_connections(most)
                .acquire_timeout(ACQUIRE)
                .after_connect(|_, _| Box::pin(async { used().map(drop) }))
                .test_before_acquire(false)
                .before_acquire(|conn, meta| {
                    Box::pin(async move { Ok(used()? && (meta.idle_for < TRUSTED || conn.ping().await.is_ok())) })
                })
        };
        let read_only = options
            .clone()
            .application_name(READER)
            .options([("default_transaction_read_only", "on")]);
        // What writes is found by key and said over and over: to plan it anew for every value takes as long as to do it.
        // Lists are planned for what is asked.
        let planned_once = options.clone().options([("plan_cache_mode", "force_generic_plan")]);
        Self {
            writer: pool(writers).connect_lazy_with(planned_once),
            reader: pool(readers).connect_lazy_with(read_only),
            options: Arc::new(options),
            clock,
            wake: Wake::new(),
            refusals: Limiter::default(),
        }
    }

    /// A transaction on one of our pools, begun in a task of its own: a `begin` that is dropped before the server has
    /// answered is forgotten by its connection, which then goes back to the pool inside a transaction. The next
    /// statement there would think that it stands alone, be believed, and be rolled back by a stranger.
    pub(crate) async fn begin(pool: &PgPool) -> sqlx::Result<Transaction<'static, Postgres>> {
        let pool = pool.clone();
        let begun = tokio::spawn(async move { pool.begin().await });
        begun.await.map_err(|_| sqlx::Error::WorkerCrashed)?
    }

    /// For queries. A write through here fails in the server.
    pub fn read(&self) -> &PgPool {
        &self.reader
    }

    /// For rows that record no decision of anybody: last-seen times, leases, sequence stamps, claims. Nobody audits
    /// a heartbeat. A decision goes through `change`.
    pub fn bookkeeping(&self) -> &PgPool {
        &self.writer
    }

    pub(crate) fn writer(&self) -> &PgPool {
        &self.writer
    }

    pub(crate) fn refusals(&self) -> &Limiter {
        &self.refusals
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn wake(&self) -> &Wake {
        &self.wake
    }

    /// For connections that live outside the pools.
    pub fn connect_options(&self) -> &PgConnectOptions {
        &self.options
    }

    /// Is the database there? Bounded by the pool's own patience.
    pub async fn ping(&self) -> sqlx::Result<()> {
        sqlx::query("select 1").execute(&self.reader).await?;
        Ok(())
    }

    pub async fn close(&self) {
        self.reader.close().await;
        self.writer.close().await;
    }
}

/// Counted, so that it can be shown what a fleet that waits costs: nothing.
fn used() -> sqlx::Result<bool> {
    ::metrics::counter!(DATABASE_USES).increment(1);
    Ok(true)
}

/// Advisory locks, all in one list so that no two purposes share a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    Migrate,
    AuditSealer,
    OutboxRelay,
    Bootstrap,
    TestTemplate,
    /// Locks of other crates count from here; each documents its own.
    Other(u16),
}

impl Lock {
    pub const fn key(self) -> i64 {
        const SPACE: i64 = 0x6770_7561_6173_0000; // "gpuaas"
        SPACE
            + match self {
                Lock::Migrate => 1,
                Lock::AuditSealer => 2,
                Lock::OutboxRelay => 3,
                Lock::Bootstrap => 4,
                Lock::TestTemplate => 5,
                Lock::Other(n) => 0x100 + (n as i64 % 0xff00),
            }
    }
}
