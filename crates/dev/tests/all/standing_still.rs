//! An API process stands still for longer than its leases, its callers' patience and the time after which a silent node is
//! stale, under load, while another one serves; then it goes on with what it knew before. Nothing is lost or doubled, and
//! nobody takes the nodes that it held for silent.

use std::path::PathBuf;
use std::time::Duration;

use base::testing::TestDb;
use dev::torture::{CERT_LIFE_S, Ground, Trial, Wish};

use crate::EXE;

const STALE_S: u64 = 8;
/// A node that has something to do is heard by the other one, too.
const IDLE: usize = 2;
const STANDS_STILL: Duration = Duration::from_secs(13);

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_stands_still_loses_nothing_and_no_node_is_called_stale() {
    let db = TestDb::new().await;
    let dir = std::env::temp_dir().join(format!("still-{}", db.name()));
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    let ground = Ground {
        dir: dir.clone(),
        exe: PathBuf::from(EXE),
        owner_url: db.owner_url(),
        app_url: db.app_url(),
        nodes: 3 + IDLE,
        slice_nodes: 0,
        replicas: 2,
        stale_s: STALE_S,
        cert_life_s: CERT_LIFE_S,
        planted: None,
    };
    let wish = Wish {
        tasks: u64::MAX,
        kills: 0,
        idle_nodes: IDLE,
        loss_pct: 3,
        freezes: 0,
        ..Wish::default()
    };
    let trial = Trial::begin(&wish, &ground).await.expect("the stage is set");
    for replica in &trial.stage.replicas {
        trial.more(20).await.expect("a load");
        let frozen = trial.freezes.freeze(&replica.process, STANDS_STILL);
        assert!(frozen.await, "it was there");
        let again = trial.more(20).await.expect("all of them go on");
        println!("20 tasks had ended {again:?} after it went on");
    }
    let outcome = trial.end().await.expect("it can be judged");
    assert!(!outcome.stuck && outcome.violations.is_empty(), "{outcome:#?}");
    assert_eq!((outcome.freezes, outcome.called_stale), (2, 0), "{outcome:#?}");
    std::fs::remove_dir_all(&dir).expect("nothing else holds the directory");
}
