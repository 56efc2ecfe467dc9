//! Applies the embedded migrations in order, each in its own transaction, one process at a time. It refuses a database
//! whose applied migrations differ from the embedded ones, and one that is ahead of this binary's by more than it can
//! know: it never edits and never goes back.

use std::time::{Duration, Instant};

use model::digest::Sha256;
use sqlx::error::DatabaseError;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Row};

use super::Lock;
use super::migrations::MIGRATIONS;

/// How long a migration tries to get its locks.
const LOCKED_MOST: Duration = Duration::from_secs(300);
const LET_BY: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
pub struct Migration {
    pub version: i32,
    pub name: &'static str,
    pub sql: &'static str,
}

impl Migration {
    pub fn sha256(&self) -> Sha256 {
        Sha256::of(self.sql.as_bytes())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("migration {name} was changed after it had been applied here")]
    Changed { name: &'static str },
    #[error("migration {name} failed")]
    Failed {
        name: &'static str,
        #[source]
        source: sqlx::Error,
    },
    #[error("the schema is at version {at}, this program needs {need}: run the migration first")]
    Behind { at: i32, need: i32 },
    #[error("database error while migrating")]
    Database(#[from] sqlx::Error),
}

/// Brings the schema up to date. Returns the names of what it applied.
pub async fn migrate(conn: &mut PgConnection) -> Result<Vec<&'static str>, MigrateError> {
    run(conn, MIGRATIONS).await
}

pub async fn run(conn: &mut PgConnection, list: &[Migration]) -> Result<Vec<&'static str>, MigrateError> {
    // Session lock: the transactions below come and go, the turn stays ours.
    sqlx::query("select pg_advisory_lock($1)")
        .bind(Lock::Migrate.key())
        .execute(&mut *conn)
        .await?;
    let applied = run_locked(conn, list).await;
    sqlx::query("select pg_advisory_unlock($1)")
        .bind(Lock::Migrate.key())
        .execute(&mut *conn)
        .await?;
    applied
}

async fn run_locked(conn: &mut PgConnection, list: &[Migration]) -> Result<Vec<&'static str>, MigrateError> {
    sqlx::raw_sql(
        "create table if not exists schema_migration (
             version     int primary key,
             name        text not null,
             sha256      bytea not null,
             applied_at  timestamptz not null default now()
         );
         grant select on schema_migration to gpuaas_app",
    )
    .execute(&mut *conn)
    .await?;
    let mut fresh = Vec::new();
    for migration in list {
        let digest = sqlx::query("select sha256 from schema_migration where version = $1")
            .bind(migration.version)
            .fetch_optional(&mut *conn)
            .await?
            .map(|row| row.try_get::<Vec<u8>, _>(0))
            .transpose()?;
        match digest {
            Some(digest) if digest == migration.sha256().as_bytes() => {}
            Some(_) => {
                return Err(MigrateError::Changed { name: migration.name });
            }
            None => {
                apply(conn, migration).await.map_err(|source| MigrateError::Failed {
                    name: migration.name,
                    source,
                })?;
                fresh.push(migration.name);
            }
        }
    }
    Ok(fresh)
}

/// Behind one that waits for a table, everybody waits who wants it. So it lets them by after a moment, and tries again.
async fn apply(conn: &mut PgConnection, migration: &Migration) -> sqlx::Result<()> {
    let until = Instant::now() + LOCKED_MOST;
    loop {
        let blocked = match try_apply(conn, migration).await {
            Err(sqlx::Error::Database(error)) if is_blocked(&*error) && Instant::now() < until => error,
            done => return done,
        };
        tracing::info!(migration = migration.name, %blocked, "somebody is at work there; trying again");
        tokio::time::sleep(LET_BY).await;
    }
}

/// A lock was not to be had in time, or only by a deadlock.
fn is_blocked(error: &dyn DatabaseError) -> bool {
    matches!(error.code().as_deref(), Some("55P03" | "40P01"))
}

async fn try_apply(conn: &mut PgConnection, migration: &Migration) -> sqlx::Result<()> {
    let mut tx = conn.begin().await?;
    sqlx::raw_sql("set local lock_timeout = '1s'").execute(&mut *tx).await?;
    // Embedded in the binary at build time, so nothing from outside reaches this string.
    sqlx::raw_sql(AssertSqlSafe(migration.sql)).execute(&mut *tx).await?;
    sqlx::query("insert into schema_migration (version, name, sha256) values ($1, $2, $3)")
        .bind(migration.version)
        .bind(migration.name)
        .bind(migration.sha256().as_bytes().as_slice())
        .execute(&mut *tx)
        .await?;
    tx.commit().await
}

/// For processes that may not migrate: is the schema at least what this binary was built with? A newer one is fine,
/// migrations only expand within a release.
pub async fn check(conn: &mut PgConnection) -> Result<(), MigrateError> {
    let need = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0);
    let exists: bool = sqlx::query_scalar("select to_regclass('schema_migration') is not null")
        .fetch_one(&mut *conn)
        .await?;
    let there: Vec<i32> = if exists {
        sqlx::query_scalar("select version from schema_migration order by version")
            .fetch_all(&mut *conn)
            .await?
    } else {
        Vec::new()
    };
    let missing = MIGRATIONS.iter().find(|migration| !there.contains(&migration.version));
    match missing {
        Some(missing) => Err(MigrateError::Behind {
            at: there.into_iter().filter(|at| *at < missing.version).max().unwrap_or(0),
            need,
        }),
        None => Ok(()),
    }
}

/// Names the whole list: test templates are keyed by it.
pub fn fingerprint() -> Sha256 {
    let mut all = Vec::new();
    for migration in MIGRATIONS {
        all.extend_from_slice(migration.name.as_bytes());
        all.extend_from_slice(migration.sha256().as_bytes());
    }
    Sha256::of(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_up_and_match_their_file_names() {
        let mut last = 0;
        for migration in MIGRATIONS {
            assert!(migration.version > last, "{}", migration.name);
            last = migration.version;
            assert!(
                migration.name.starts_with(&format!("{:04}_", migration.version)),
                "{}",
                migration.name
            );
        }
    }
}
