//! The cluster behind test databases: the one that the test run started, or one of this process's own. Its keeper is
//! a thread with a small runtime that lives as long as the process: PostgreSQL dies with the thread that started it,
//! and databases are dropped from `Drop`, where nothing can be awaited.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use uuid::Uuid;

use super::super::config;
use crate::db::managed::{Managed, Options, SUPERUSER, socket_options};
use crate::db::roles::{create_database as create, plain};
use crate::db::{Lock, OWNER, migrate};

mod sweep;

struct Keeper {
    dir: PathBuf,
    drops: UnboundedSender<Drop>,
}

struct Drop {
    name: String,
    /// Closed when the database is gone.
    done: mpsc::Sender<Infallible>,
}

static KEEPER: OnceLock<Keeper> = OnceLock::new();

fn keeper() -> &'static Keeper {
    KEEPER.get_or_init(|| {
        let (drops, to_drop) = unbounded_channel();
        let (tell, told) = mpsc::channel();
        std::thread::Builder::new()
            .name("test-postgres".to_owned())
            .spawn(move || keep(&tell, to_drop))
            .expect("a thread can be started");
        let dir = told.recv().expect("the test cluster starts; its error is above");
        Keeper { dir, drops }
    })
}

fn keep(tell: &mpsc::Sender<PathBuf>, mut to_drop: UnboundedReceiver<Drop>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        let (dir, _own) = match config::test_postgres_socket() {
            Some(dir) => (dir, None),
            None => {
                let own = start_own().await;
                (own.socket_dir().to_owned(), Some(own))
            }
        };
        ensure_template(&dir).await.expect("the template database can be made");
        tell.send(dir.clone()).expect("somebody waits for it");
        while let Some(Drop { name, done }) = to_drop.recv().await {
            if let Err(error) = drop_now(&dir, &name).await {
                eprintln!("database {name} was not dropped: {error}");
            }
            drop(done); // hanging up is the answer
        }
    });
}

async fn start_own() -> Managed {
    let dir = sweep::own_dir();
    sweep::remove_dead();
    let options = Options {
        durable: false,
        ..Options::new(dir, None)
    };
    Managed::start(options)
        .await
        .unwrap_or_else(|error| panic!("test cluster: {error}"))
}

/// The socket directory of the cluster, started if need be.
pub fn socket_dir() -> PathBuf {
    dir().to_owned()
}

pub(super) fn dir() -> &'static Path {
    &keeper().dir
}

fn template() -> String {
    format!("template_{}", &migrate::fingerprint().to_string()[..16])
}

/// Makes the migrated template unless it is there. Under another name first, so that nobody clones half of it.
async fn ensure_template(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut conn = PgConnection::connect_with(&socket_options(dir, SUPERUSER, "postgres")).await?;
    sqlx::raw_sql(crate::db::roles::ROLES_SQL).execute(&mut conn).await?;
    sqlx::query("select pg_advisory_lock($1)")
        .bind(Lock::TestTemplate.key())
        .execute(&mut conn)
        .await?;
    let name = template();
    let exists: bool = sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
        .bind(&name)
        .fetch_one(&mut conn)
        .await?;
    if !exists {
        let making = format!("{name}_making");
        sqlx::raw_sql(AssertSqlSafe(format!("drop database if exists {making} with (force)")))
            .execute(&mut conn)
            .await?;
        create(&mut conn, &making, None).await?;
        let mut owner = PgConnection::connect_with(&socket_options(dir, OWNER, &making)).await?;
        migrate::migrate(&mut owner).await?;
        owner.close().await?;
        // A template with a session cannot be cloned, so it takes none any more.
        let settle = format!("alter database {making} rename to {name}; alter database {name} allow_connections false");
        sqlx::raw_sql(AssertSqlSafe(settle)).execute(&mut conn).await?;
    }
    conn.close().await?; // and with it the lock
    Ok(())
}

pub(super) async fn create_database() -> String {
    let dir = tokio::task::spawn_blocking(dir).await.expect("the test cluster starts");
    let name = format!("t_{}", Uuid::now_v7().simple());
    let made = async {
        let mut conn = PgConnection::connect_with(&socket_options(dir, SUPERUSER, "postgres")).await?;
        create(&mut conn, &name, Some(&template())).await?;
        conn.close().await
    };
    made.await
        .unwrap_or_else(|error: sqlx::Error| panic!("test database: {error}"));
    name
}

/// Waits until it is gone, so that a run that ends now leaves nothing.
pub(super) fn drop_database(name: &str) {
    let (done, wait) = mpsc::channel::<Infallible>();
    if keeper()
        .drops
        .send(Drop {
            name: name.to_owned(),
            done,
        })
        .is_err()
    {
        eprintln!("database {name} may be left over");
    }
    while wait.recv().is_ok() {}
}

async fn drop_now(dir: &Path, name: &str) -> sqlx::Result<()> {
    let mut conn = PgConnection::connect_with(&socket_options(dir, SUPERUSER, "postgres")).await?;
    let sql = format!("drop database if exists {} with (force)", plain(name));
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await?;
    conn.close().await
}
