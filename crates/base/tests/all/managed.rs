//! The private PostgreSQL, started, killed and started again.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

use base::db::managed::{Managed, ManagedError, Options, Search};
use base::testing::eventually;
use model::signal::Code;
use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection, PgConnection};

mod owner;
use owner::Owner;

/// A directory that goes away with the test.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("gpuaas-managed-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&path).expect("the temp dir is writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
        Self(path)
    }

    fn pg(&self) -> PathBuf {
        self.0.join("pg")
    }

    fn options(&self) -> Options {
        Options {
            durable: false,
            ..Options::new(self.pg(), None)
        }
    }

    fn postmaster(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.pg().join("data/postmaster.pid")).ok()?;
        Pid::from_raw(text.lines().next()?.trim().parse().ok()?)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

async fn write(managed: &Managed) {
    let mut conn = PgConnection::connect(&managed.owner_url())
        .await
        .expect("the owner can log in");
    sqlx::raw_sql("create table kept (n int); insert into kept values (7)")
        .execute(&mut conn)
        .await
        .expect("writes");
    conn.close().await.expect("closes");
}

async fn read(url: &str) -> sqlx::Result<i32> {
    let mut conn = PgConnection::connect(url).await?;
    let n = sqlx::query_scalar("select n from kept").fetch_one(&mut conn).await?;
    conn.close().await?;
    Ok(n)
}

async fn gone(pid: Pid) {
    let process = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    eventually("PostgreSQL is gone", async || {
        if process.exists() { Err("still there") } else { Ok(()) }
    })
    .await;
}

#[tokio::test]
async fn data_survives_a_stop_and_a_second_start_is_refused() {
    let dir = Dir::new();
    let managed = Managed::start(dir.options()).await.expect("starts");
    write(&managed).await;
    let error = Managed::start(dir.options()).await.expect_err("the directory is taken");
    assert_eq!(error.code(), Code::AlreadyRunning);
    assert!(error.to_string().contains(&dir.pg().display().to_string()), "{error}");
    let app = PgConnection::connect(&managed.app_url())
        .await
        .expect("processes can log in");
    app.close().await.expect("closes");
    managed.stop().await.expect("stops");
    assert_eq!(dir.postmaster(), None, "stopped means gone");
    let managed = Managed::start(dir.options()).await.expect("starts again");
    assert_eq!(read(&managed.owner_url()).await.expect("reads"), 7);
    managed.stop().await.expect("stops");
}

#[tokio::test]
async fn kill_9_of_the_owner_loses_nothing_and_leaves_no_orphan() {
    let dir = Dir::new();
    let owner = Owner::start(&dir.pg(), false);
    let mut conn = PgConnection::connect(&owner.owner_url)
        .await
        .expect("the owner can log in");
    sqlx::raw_sql("create table kept (n int); insert into kept values (7)")
        .execute(&mut conn)
        .await
        .expect("writes");
    let orphan = dir.postmaster().expect("it runs");
    owner.kill_9();
    let managed = Managed::start(dir.options())
        .await
        .expect("starts on the same directory");
    assert_ne!(dir.postmaster(), Some(orphan));
    gone(orphan).await;
    assert_eq!(read(&managed.owner_url()).await.expect("reads"), 7);
    managed.stop().await.expect("stops");
}

#[tokio::test]
async fn it_dies_with_its_owner() {
    let dir = Dir::new();
    let owner = Owner::start(&dir.pg(), false);
    let postmaster = dir.postmaster().expect("it runs");
    owner.kill_9();
    gone(postmaster).await;
}

#[tokio::test]
async fn a_server_that_dies_is_started_again() {
    let dir = Dir::new();
    // Durable: a killed server has no time to write what it still holds.
    let managed = Managed::start(Options::new(dir.pg(), None)).await.expect("starts");
    write(&managed).await;
    kill_process(dir.postmaster().expect("it runs"), Signal::KILL).expect("may be killed");
    eventually("it is back", async || {
        if managed.restarts() > 0 {
            read(&managed.owner_url()).await.map_err(|e| e.to_string())
        } else {
            Err("not noticed".into())
        }
    })
    .await;
    managed.stop().await.expect("stops");
}

#[tokio::test]
async fn it_runs_as_an_ordinary_user() {
    let dir = Dir::new();
    if rustix::process::geteuid().is_root() {
        chown(&dir.0, Some(65534), Some(65534)).expect("root may");
    }
    let owner = Owner::start(&dir.pg(), true);
    let mut conn = PgConnection::connect(&owner.owner_url)
        .await
        .expect("the owner can log in");
    let one: i32 = sqlx::query_scalar("select 1")
        .fetch_one(&mut conn)
        .await
        .expect("answers");
    assert_eq!(one, 1);
    let postmaster = dir.postmaster().expect("it runs");
    owner.kill_9();
    gone(postmaster).await;
}

#[tokio::test]
async fn without_programs_one_line_names_the_package() {
    let dir = Dir::new();
    let half = dir.0.join("bin");
    fs::create_dir(&half).expect("creates");
    fs::write(half.join("postgres"), "").expect("writes");
    for (path, bin_dir) in [(vec![], None), (vec![half.clone()], None), (vec![], Some(half))] {
        let search = Search {
            bin_dir,
            path,
            lib: dir.0.join("nothing"),
        };
        let options = Options {
            search,
            ..dir.options()
        };
        let error = Managed::start(options).await.expect_err("nothing to start");
        assert_eq!(error.code(), Code::PostgresMissing);
        let line = error.to_string();
        assert!(
            line.contains("apt install postgresql") && !line.contains('\n'),
            "{line}"
        );
    }
}

#[tokio::test]
async fn data_of_another_major_is_refused_and_not_touched() {
    let dir = Dir::new();
    fs::create_dir_all(dir.pg().join("data")).expect("creates");
    fs::write(dir.pg().join("data/PG_VERSION"), "9\n").expect("writes");
    let error = Managed::start(dir.options()).await.expect_err("refused");
    assert_eq!(error.code(), Code::PostgresMajorMismatch);
    let ManagedError::MajorMismatch { data, programs, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(data, "9");
    assert!(programs.parse::<u32>().is_ok_and(|major| major >= 14), "{programs}");
    let files: Vec<_> = fs::read_dir(dir.pg().join("data")).expect("reads").flatten().collect();
    assert_eq!(files.len(), 1);
}

#[tokio::test]
async fn a_half_made_cluster_is_made_anew_and_a_long_path_gets_a_short_socket() {
    let dir = Dir::new();
    let deep = dir.0.join("a".repeat(60)).join("b".repeat(60));
    fs::create_dir_all(deep.join("data.new/base")).expect("creates");
    let options = Options {
        durable: false,
        ..Options::new(&deep, None)
    };
    let managed = Managed::start(options).await.expect("starts");
    let socket = managed.socket_dir().to_owned();
    assert!(!socket.starts_with(&dir.0), "{}", socket.display());
    let mode = fs::metadata(&socket).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    managed.stop().await.expect("stops");
    fs::remove_dir_all(&socket).expect("ours");
}

#[tokio::test]
async fn root_is_told_which_directory_its_database_user_cannot_enter() {
    if !rustix::process::geteuid().is_root() {
        return; // only root changes users, so only root can have this trouble
    }
    let dir = Dir::new();
    fs::set_permissions(&dir.0, fs::Permissions::from_mode(0o700)).expect("ours");
    let error = Managed::start(dir.options()).await.expect_err("cannot be entered");
    assert_eq!(error.code(), Code::ConfigInvalid);
    assert!(
        error.to_string().contains(&format!("cannot enter {}", dir.0.display())),
        "{error}"
    );
}
