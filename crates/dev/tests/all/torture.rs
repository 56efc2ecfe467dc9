//! The torture run, short: two minutes of it, and that it would notice if something were wrong. `make torture` is the
//! long one.

use std::path::PathBuf;
use std::time::Duration;

use base::testing::TestDb;
use dev::half::Planted;
use dev::history::Kind;
use dev::torture::{CERT_LIFE_S, Ground, Outcome, STALE_S, Wish, run};

use crate::EXE;

/// Less than this is no torture, however busy the machine is.
const TASKS: u64 = 150;
const KILLS: u64 = 80;
const FREEZES: u64 = 3;

async fn tortured(name: &str, wish: &Wish, (nodes, slice_nodes): (usize, usize), planted: Option<Planted>) -> Outcome {
    let db = TestDb::new().await;
    let dir = std::env::temp_dir().join(format!("{name}-{}", db.name()));
    let ground = Ground {
        dir: dir.clone(),
        exe: PathBuf::from(EXE),
        owner_url: db.owner_url(),
        app_url: db.app_url(),
        nodes,
        slice_nodes,
        replicas: 2,
        stale_s: STALE_S,
        cert_life_s: CERT_LIFE_S,
        planted,
    };
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    let outcome = run(wish, &ground).await.expect("the run comes to its end");
    // What a run without a planted bug has left is worth a look if it was not clean.
    if planted.is_some() || outcome.violations.is_empty() {
        std::fs::remove_dir_all(&dir).expect("nothing else holds the directory");
    }
    outcome
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_doubled_or_falsely_complete_while_everything_is_killed() {
    let wish = Wish {
        tasks: TASKS,
        kills: KILLS,
        at_least: Duration::from_secs(90),
        kill_every: Duration::from_millis(900),
        renters: 3,
        freezes: FREEZES,
        freeze_every: Duration::from_secs(6),
        ..Wish::default()
    };
    let outcome = tortured("torture", &wish, (4, 1), None).await;
    let report = outcome.report(&wish);
    assert!(report.ok(), "{:#?}", outcome.violations);
    // Every tenant made three differences and took three away, and all of them were seen.
    assert!(outcome.effects > TASKS * 3, "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_forgets_its_journal_is_found_out() {
    // One node with much under way at once, and every kill is its executor's.
    let wish = Wish {
        tasks: 80,
        kills: 40,
        slots: 8,
        kill_every: Duration::from_millis(200),
        victims: [0, 1, 0],
        freezes: 0,
        ..Wish::default()
    };
    let outcome = tortured("forgets", &wish, (1, 0), Some(Planted::NoJournal)).await;
    let report = outcome.report(&wish);
    // Every life but the first begins without a memory.
    assert!(!report.ok() && outcome.found(Kind::Doubled) > 0, "{outcome:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_only_says_so_is_found_out() {
    let wish = Wish {
        tasks: 24,
        kills: 0,
        loss_pct: 0,
        freezes: 0,
        ..Wish::default()
    };
    let outcome = tortured("says-so", &wish, (2, 1), Some(Planted::NoEffects)).await;
    // In every case: the tenant was told, and the host knows nothing of it.
    assert!(outcome.found(Kind::FalselyComplete) >= 4, "{outcome:#?}");
    let slices = outcome.violations.iter().filter(|found| found.key.contains("/s"));
    assert!(slices.count() > 0 && outcome.slice_tasks > 0, "{outcome:#?}");
}
