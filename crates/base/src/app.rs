//! What every part of a control-plane process shares: database, clock, configuration, bell, bus, and who this
//! installation is. Cheap to clone; opened once at the start of the process.

use std::sync::Arc;

use model::id::InstallationId;
use model::time::Timestamp;
use sqlx::{Connection, PgConnection};
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::auth::oidc::Oidc;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::Db;
use crate::db::migrate::{self, MigrateError};
use crate::http::{CursorKey, Rates, Readiness, Streams};
use crate::outbox::Bus;
use crate::tx::Actor;
use crate::wake::{self, Wake};

#[derive(Clone, Debug)]
pub struct App {
    pub db: Db,
    pub clock: Clock,
    pub config: Arc<Config>,
    pub wake: Wake,
    pub bus: Bus,
    pub installation: InstallationId,
    pub installed_at: Timestamp,
    pub cursors: CursorKey,
    pub readiness: Readiness,
    pub rates: Rates,
    pub streams: Streams,
    /// Who else may say who somebody is.
    pub oidc: Option<Oidc>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("no database is configured: set database_url, or managed_postgres")]
    NoDatabase,
    #[error("the database does not answer")]
    Unreachable(#[source] sqlx::Error),
    #[error("the schema is not usable")]
    Schema(#[from] MigrateError),
    #[error("the database role in database_url may alter the audit: log in as gpuaas_app")]
    RoleTooStrong,
    #[error("the installation cannot be read")]
    Installation(#[source] sqlx::Error),
    #[error("the identity provider cannot be used as configured: {0:#}")]
    Provider(anyhow::Error),
}

impl OpenError {
    pub const fn code(&self) -> model::signal::Code {
        use model::signal::Code;
        match self {
            OpenError::NoDatabase | OpenError::RoleTooStrong | OpenError::Provider(_) => Code::ConfigInvalid,
            OpenError::Unreachable(_) | OpenError::Installation(_) => Code::DatabaseUnavailable,
            OpenError::Schema(_) => Code::SchemaMismatch,
        }
    }
}

impl App {
    /// Connects, migrates if this process may, and finds out which installation this is. `database_url` must be set by
    /// now: a managed cluster was started before and its URLs put into the configuration.
    pub async fn open(config: Config, clock: Clock) -> Result<Self, OpenError> {
        if let Some(owner) = &config.database_owner_url {
            let mut conn = PgConnection::connect(owner.reveal())
                .await
                .map_err(OpenError::Unreachable)?;
            let applied = migrate::migrate(&mut conn).await?;
            if !applied.is_empty() {
                tracing::info!(?applied, "schema brought up to date");
            }
            conn.close().await.map_err(OpenError::Unreachable)?;
        }
        let url = config.database_url.as_ref().ok_or(OpenError::NoDatabase)?;
        let db = Db::connect(url.reveal(), clock.clone())
            .await
            .map_err(OpenError::Unreachable)?;
        let mut conn = db.read().acquire().await.map_err(OpenError::Unreachable)?;
        migrate::check(&mut conn).await?;
        // Insert-only is a promise to auditors; a process that could break it does not start.
        let strong: bool = sqlx::query_scalar("select has_table_privilege('audit', 'update, delete, truncate')")
            .fetch_one(&mut *conn)
            .await
            .map_err(OpenError::Unreachable)?;
        drop(conn);
        if strong {
            return Err(OpenError::RoleTooStrong);
        }
        Self::with(db, config).await
    }

    /// Around a database that is connected and migrated already.
    pub async fn with(db: Db, config: Config) -> Result<Self, OpenError> {
        let installation = ensure_installation(&db).await.map_err(OpenError::Installation)?;
        Ok(Self {
            clock: db.clock().clone(),
            wake: db.wake().clone(),
            bus: Bus::open(db.clone()).await.map_err(OpenError::Installation)?,
            oidc: Oidc::of(&config, db.clock()).map_err(OpenError::Provider)?,
            rates: Rates::new(&config),
            config: Arc::new(config),
            installation: installation.id.into(),
            installed_at: installation.created_at.into(),
            cursors: CursorKey::new(&installation.cursor_key),
            readiness: Readiness::default(),
            streams: Streams::default(),
            db,
        })
    }

    /// The loops that every process needs, whatever its role: wake-ups out, wake-ups in, and the reading of events.
    pub fn spawn_loops(&self, tracker: &TaskTracker, stop: &CancellationToken) {
        tracker.spawn(wake::send(self.db.clone(), stop.clone()));
        tracker.spawn(wake::listen(self.db.clone(), stop.clone()));
        tracker.spawn(self.bus.clone().run(stop.clone()));
    }
}

#[derive(sqlx::FromRow)]
struct Installation {
    id: Uuid,
    cursor_key: Vec<u8>,
    created_at: OffsetDateTime,
}

/// The first process to start decides who this installation is; all others read it.
async fn ensure_installation(db: &Db) -> sqlx::Result<Installation> {
    const READ: &str = "select id, cursor_key, created_at from installation";
    if let Some(row) = sqlx::query_as(READ).fetch_optional(db.read()).await? {
        return Ok(row);
    }
    let id = InstallationId::new();
    let mut change = db
        .change(&Actor::system("installation"), "installation.create", id)
        .await?;
    let at = OffsetDateTime::from(change.at());
    let made =
        sqlx::query("insert into installation (id, cursor_key, created_at) values ($1, $2, $3) on conflict do nothing")
            .bind(id.uuid())
            .bind(rand::random::<[u8; 32]>().as_slice())
            .bind(at)
            .execute(change.conn())
            .await?;
    if made.rows_affected() == 1 {
        change.commit().await?;
    } else {
        change.rollback().await?;
    }
    sqlx::query_as(READ).fetch_one(db.bookkeeping()).await
}
