//! The ground shakes under load: PostgreSQL is restarted in each of its three ways, replicas are rolled. Nothing is
//! lost or doubled, and everything comes back by itself; how long that took is printed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::db::managed::{Managed, Options};
use base::testing::{TestDb, eventually};
use dev::torture::{CERT_LIFE_S, Ground, Outcome, STALE_S, Trial, Wish};
use model::api::VersionView;
use rustix::process::{Pid, Signal, kill_process};

use crate::EXE;

/// Tasks that end before each shake, so that there is a load, and after it, so that there is one again.
const BETWEEN: u64 = 12;

fn wish() -> Wish {
    Wish {
        tasks: u64::MAX,
        kills: 0,
        loss_pct: 0,
        freezes: 0,
        ..Wish::default()
    }
}

fn ground(dir: &Path, owner_url: String, app_url: String) -> Ground {
    std::fs::create_dir_all(dir).expect("a temporary directory");
    Ground {
        dir: dir.to_owned(),
        exe: PathBuf::from(EXE),
        owner_url,
        app_url,
        nodes: 2,
        slice_nodes: 0,
        replicas: 2,
        stale_s: STALE_S,
        cert_life_s: CERT_LIFE_S,
        planted: None,
    }
}

fn clean(outcome: &Outcome, dir: &Path) {
    assert!(!outcome.stuck && outcome.violations.is_empty(), "{outcome:#?}");
    std::fs::remove_dir_all(dir).expect("nothing else holds the directory");
}

/// The process that all others of a cluster come from.
fn postmaster(dir: &Path) -> Option<Pid> {
    let text = std::fs::read_to_string(dir.join("data/postmaster.pid")).ok()?;
    Pid::from_raw(text.lines().next()?.trim().parse().ok()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_restarted_fast_at_once_and_by_kill_loses_nothing() {
    let dir = std::env::temp_dir().join(format!("shaken-{}", uuid::Uuid::new_v4().simple()));
    let cluster = dir.join("pg");
    // Durable: what was committed has to be there after a crash.
    let database = Managed::start(Options::new(&cluster, None)).await.expect("a cluster");
    let ground = ground(&dir, database.owner_url(), database.app_url());
    let trial = Trial::begin(&wish(), &ground).await.expect("the stage is set");
    for (how, signal) in [
        ("fast", Signal::INT),
        ("immediate", Signal::QUIT),
        ("kill -9", Signal::KILL),
    ] {
        trial.more(BETWEEN).await.expect("a load");
        let (old, restarts) = (postmaster(&cluster).expect("it runs"), database.restarts());
        kill_process(old, signal).expect("it was there");
        let shaken = Instant::now();
        eventually("it was restarted", async || match database.restarts() {
            now if now > restarts => Ok(()),
            now => Err(now),
        })
        .await;
        eventually("the API answers", async || {
            let answer = trial.stage.api.get::<VersionView>("/v1/version").await;
            let nodes = trial.stage.api.get::<serde_json::Value>("/v1/nodes").await;
            answer.map(drop).and(nodes.map(drop)).map_err(|error| error.to_string())
        })
        .await;
        let answers = shaken.elapsed();
        trial.more(1).await.expect("tasks end again");
        println!(
            "{how}: the API answered after {answers:?}, the next task ended after {:?}",
            shaken.elapsed()
        );
    }
    trial.more(BETWEEN).await.expect("a load");
    let outcome = trial.end().await.expect("it can be judged");
    database.stop().await.expect("it stops");
    clean(&outcome, &dir);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_rolled_under_load_lose_nothing() {
    let db = TestDb::new().await;
    let dir = std::env::temp_dir().join(format!("rolled-{}", db.name()));
    let ground = ground(&dir, db.owner_url(), db.app_url());
    let trial = Trial::begin(&wish(), &ground).await.expect("the stage is set");
    let mut slowest = Duration::ZERO;
    for round in 0..3 {
        for replica in &trial.stage.replicas {
            trial.more(BETWEEN / 2).await.expect("a load");
            let began = Instant::now();
            let (before, starts) = (listens(replica.dir()), replica.process.starts());
            replica.process.replace();
            eventually("it listens again, elsewhere", async || {
                let now = listens(replica.dir());
                match replica.process.starts() > starts && now != before {
                    true => Ok(()),
                    false => Err(now),
                }
            })
            .await;
            println!("round {round}: back after {:?}", began.elapsed());
            slowest = slowest.max(trial.more(1).await.expect("tasks go on"));
        }
    }
    println!("longest time without a finished task: {slowest:?}");
    let outcome = trial.end().await.expect("it can be judged");
    clean(&outcome, &dir);
}

fn listens(dir: &Path) -> Option<std::net::SocketAddr> {
    dev::replica::listens(dir).map(|listens| listens.public)
}
