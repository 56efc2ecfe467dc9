//! A database for every test: cloned in a fraction of a second from a migrated template, in one throw-away cluster per
//! run. A test that passes leaves nothing; one that fails keeps its database and says its name.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;

use crate::app::App;
use crate::clock::Clock;
use crate::config::{Config, DatabaseUrl};
use crate::db::managed::{SUPERUSER, socket_options, socket_url};
use crate::db::{APP, Db, OWNER};

mod cluster;
mod eventually;
pub mod issuer;

pub use cluster::socket_dir;
pub use eventually::eventually;

/// A fresh, migrated database of its own. Keep it alive as long as the test runs.
#[derive(Debug)]
pub struct TestDb {
    name: String,
    clock: Clock,
}

impl TestDb {
    pub async fn new() -> Self {
        Self::with_clock(Clock::real()).await
    }

    pub async fn with_clock(clock: Clock) -> Self {
        let name = cluster::create_database().await;
        Self { name, clock }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// As processes log in.
    pub fn app_url(&self) -> String {
        socket_url(cluster::dir(), APP, &self.name)
    }

    /// As migrations log in.
    pub fn owner_url(&self) -> String {
        socket_url(cluster::dir(), OWNER, &self.name)
    }

    /// As nobody logs in but tests that play the intruder.
    pub fn superuser(&self) -> PgConnectOptions {
        socket_options(cluster::dir(), SUPERUSER, &self.name)
    }

    /// A connection of its own for each call, as if for another process.
    pub fn db(&self) -> Db {
        Db::lazy(socket_options(cluster::dir(), APP, &self.name), self.clock.clone(), 5)
    }

    /// An application on this database, at default settings.
    pub async fn app(&self) -> App {
        self.app_with(|_| {}).await
    }

    pub async fn app_with(&self, change: impl FnOnce(&mut Config)) -> App {
        let mut config = Config::defaults();
        config.database_url = Some(DatabaseUrl::new(self.app_url()));
        change(&mut config);
        App::with(self.db(), config)
            .await
            .expect("a fresh test database can be used")
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("kept database {} in {}", self.name, cluster::dir().display());
        } else {
            cluster::drop_database(&self.name);
        }
    }
}

/// How long `eventually` waits: long for a loaded machine, never reached by a healthy test.
pub const PATIENCE: Duration = Duration::from_secs(30);
