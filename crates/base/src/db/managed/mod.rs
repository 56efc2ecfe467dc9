//! A private PostgreSQL, for a single machine: made from the system's own programs, on a Unix socket only, run as
//! another user when we are root, stopped when we stop and also when we are killed. It refuses to share its directory
//! with a second process, to touch data of another major version, and to download anything.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::signal::Code;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};

use super::{APP, OWNER, roles};
use crate::config::{Config, DatabaseUrl};

mod account;
mod find;
mod orphan;
mod place;
mod supervise;

use account::Account;
use find::Programs;
pub use find::Search;
use place::Place;
use supervise::Supervisor;

/// The superuser that `initdb` makes. Used to make roles and databases, for nothing else.
pub const SUPERUSER: &str = "gpuaas";
/// The database that the platform lives in.
pub const DATABASE: &str = "gpuaas";
const READY_WITHIN: Duration = Duration::from_secs(30);
const READY_EVERY: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub struct Options {
    /// Holds `data`, `sock`, `log` and the lock. Kept between runs.
    pub dir: PathBuf,
    pub search: Search,
    /// Off only in tests: no fsync, nothing survives a power cut.
    pub durable: bool,
}

impl Options {
    pub fn new(dir: impl Into<PathBuf>, bin_dir: Option<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            search: Search::system(bin_dir),
            durable: true,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ManagedError {
    #[error("PostgreSQL 14 or newer is not installed: run `apt install postgresql`, or set postgres_bin_dir")]
    Missing,
    #[error("`setpriv` is not installed: run `apt install util-linux`")]
    SetprivMissing,
    #[error("{dir} holds data of PostgreSQL {data}, but the programs are {programs}")]
    MajorMismatch {
        dir: String,
        data: String,
        programs: String,
    },
    #[error("another process already runs the database in {dir}")]
    AlreadyRunning { dir: String },
    #[error("{user} cannot enter {dir}: choose a state directory outside of it")]
    NotReachable { user: String, dir: String },
    #[error("{program} failed: {output}")]
    ProgramFailed { program: &'static str, output: String },
    #[error("PostgreSQL did not become ready: {log}")]
    NotReady { log: String },
    #[error("a PostgreSQL left over from an earlier run (process {pid}) does not stop")]
    OrphanStuck { pid: i32 },
    #[error("cannot use {path}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("the new database cannot be set up")]
    SetUp(#[from] sqlx::Error),
}

impl ManagedError {
    pub const fn code(&self) -> Code {
        match self {
            Self::Missing | Self::SetprivMissing => Code::PostgresMissing,
            Self::MajorMismatch { .. } => Code::PostgresMajorMismatch,
            Self::AlreadyRunning { .. } => Code::AlreadyRunning,
            Self::NotReachable { .. } => Code::ConfigInvalid,
            Self::ProgramFailed { .. }
            | Self::NotReady { .. }
            | Self::OrphanStuck { .. }
            | Self::File { .. }
            | Self::SetUp(_) => Code::DatabaseUnavailable,
        }
    }

    fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        |source| Self::File { path, source }
    }
}

/// A running cluster. `stop` it; dropping it asks it to stop without waiting.
#[derive(Debug)]
pub struct Managed {
    place: Place,
    supervisor: Supervisor,
    major: u32,
}

impl Managed {
    /// Starts the cluster in `options.dir`, making it first if there is none, and returns when it answers and has its
    /// roles and the database `gpuaas`.
    pub async fn start(options: Options) -> Result<Self, ManagedError> {
        // The set-up blocks on files and programs; the supervisor has a thread of its own in any case.
        let begun = tokio::task::spawn_blocking(move || begin(&options)).await;
        let (place, supervisor, major) = begun.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
        let this = Self {
            place,
            supervisor,
            major,
        };
        this.wait_until_ready().await?;
        roles::ensure_database(&this.superuser("postgres"), DATABASE).await?;
        Ok(this)
    }

    /// Starts one if the configuration asks for it, and puts its addresses into the configuration.
    pub async fn for_config(config: &mut Config) -> Result<Option<Self>, ManagedError> {
        if !config.managed_postgres {
            return Ok(None);
        }
        let options = Options::new(config.state_dir.join("pg"), config.postgres_bin_dir.clone());
        let this = Self::start(options).await?;
        config.database_url = Some(DatabaseUrl::new(this.app_url()));
        config.database_owner_url = Some(DatabaseUrl::new(this.owner_url()));
        Ok(Some(this))
    }

    async fn wait_until_ready(&self) -> Result<(), ManagedError> {
        let options = self.superuser("postgres");
        let ready = async {
            loop {
                if let Ok(conn) = PgConnection::connect_with(&options).await {
                    return conn.close().await.is_ok();
                }
                if self.supervisor.gave_up_early() {
                    return false;
                }
                tokio::time::sleep(READY_EVERY).await;
            }
        };
        match tokio::time::timeout(READY_WITHIN, ready).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(ManagedError::NotReady {
                log: self.place.log_tail(),
            }),
        }
    }

    /// Where the socket lies.
    pub fn socket_dir(&self) -> &Path {
        &self.place.sock
    }

    /// The major version of PostgreSQL, for people.
    pub fn major(&self) -> u32 {
        self.major
    }

    pub fn superuser(&self, database: &str) -> PgConnectOptions {
        socket_options(&self.place.sock, SUPERUSER, database)
    }

    /// For migrations.
    pub fn owner_url(&self) -> String {
        socket_url(&self.place.sock, OWNER, DATABASE)
    }

    /// For everything else.
    pub fn app_url(&self) -> String {
        socket_url(&self.place.sock, APP, DATABASE)
    }

    /// How often it had to be started again.
    pub fn restarts(&self) -> u32 {
        self.supervisor.restarts()
    }

    /// Close the pools first: a fast shutdown ends what is open.
    pub async fn stop(self) -> Result<(), ManagedError> {
        let stopped = tokio::task::spawn_blocking(move || self.supervisor.stop()).await;
        stopped.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

fn begin(options: &Options) -> Result<(Place, Supervisor, u32), ManagedError> {
    let account = Account::for_cluster()?;
    let place = Place::prepare(&options.dir, &account)?;
    let programs = Programs::find(&options.search, place.data_major()?.as_deref(), &place.data)?;
    let runner = account::Runner::new(account, &options.search)?;
    orphan::stop(&place, &programs, &runner)?;
    place::ensure_cluster(&place, &programs, &runner, options.durable)?;
    let supervisor = Supervisor::start(&place, &programs, runner, options.durable)?;
    Ok((place, supervisor, programs.major))
}

pub(crate) fn socket_options(dir: &Path, user: &str, database: &str) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .socket(dir)
        .port(5432)
        .username(user)
        .database(database)
        .disable_statement_logging()
}

pub(crate) fn socket_url(dir: &Path, user: &str, database: &str) -> String {
    let mut host = String::new();
    for byte in dir.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => host.push(char::from(*byte)),
            other => host.push_str(&format!("%{other:02X}")),
        }
    }
    format!("postgres:///{database}?host={host}&port=5432&user={user}")
}
