//! Events: every process hears every one, in one order.

use base::outbox::{self, Bus};
use base::testing::{PATIENCE, TestDb};
use base::{Actor, Clock, Db, Target};
use model::time::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;

async fn emit(db: &Db, subject: &str, n: i64) {
    let mut change = db
        .change(&Actor::system("test"), "x.y", Target::new("thing", subject))
        .await
        .expect("opens");
    change.event("test.happened", Target::new("thing", subject), json!({ "n": n }));
    change.commit().await.expect("commits");
}

#[tokio::test]
async fn two_processes_hear_everything_in_the_same_order() {
    let test = TestDb::new().await;
    let stop = CancellationToken::new();
    let (writer, other) = (test.db(), test.db());
    let bus = Bus::open(writer.clone()).await.expect("opens");
    let other_bus = Bus::open(other.clone()).await.expect("opens");
    let (mut heard, mut other_heard) = (bus.subscribe(), other_bus.subscribe());
    let mut loops = tokio::task::JoinSet::new();
    loops.spawn(base::wake::send(writer.clone(), stop.clone()));
    loops.spawn(base::wake::listen(other.clone(), stop.clone()));
    loops.spawn(bus.run(stop.clone()));
    loops.spawn(other_bus.run(stop.clone()));
    loops.spawn(outbox::relay(writer.clone(), stop.clone()));
    loops.spawn(outbox::relay(other.clone(), stop.clone()));
    for n in 0..20 {
        emit(if n % 2 == 0 { &writer } else { &other }, "a", n).await;
    }
    let mut seen = Vec::new();
    for _ in 0..20 {
        let here = tokio::time::timeout(PATIENCE, heard.recv())
            .await
            .expect("in time")
            .expect("open");
        let there = tokio::time::timeout(PATIENCE, other_heard.recv())
            .await
            .expect("in time")
            .expect("open");
        assert_eq!(here, there);
        seen.push((here.seq, here.data["n"].as_i64()));
    }
    let expected: Vec<_> = (0..20).map(|n| (n + 1, Some(n))).collect();
    assert_eq!(seen, expected);
    stop.cancel();
    while let Some(ended) = loops.join_next().await {
        ended.expect("stops");
    }
}

#[tokio::test]
async fn a_slow_transaction_is_not_skipped() {
    let test = TestDb::new().await;
    let db = test.db();
    let mut slow = db
        .change(&Actor::system("test"), "x.y", Target::new("thing", "slow"))
        .await
        .expect("opens");
    slow.event("test.happened", Target::new("thing", "slow"), json!({}));
    emit(&db, "fast", 1).await;
    assert_eq!(outbox::stamp_all(&db).await.expect("stamps"), 1);
    slow.commit().await.expect("commits");
    assert_eq!(outbox::stamp_all(&db).await.expect("stamps"), 1);
    let events = outbox::events_after(&db, 0, 10).await.expect("reads");
    let subjects: Vec<_> = events
        .iter()
        .map(|event| (event.seq, event.subject_id.as_str()))
        .collect();
    assert_eq!(subjects, [(1, "fast"), (2, "slow")]);
    assert_eq!(outbox::last_seq(&db).await.expect("reads"), 2);
}

#[tokio::test]
async fn old_events_go_and_numbers_are_never_given_twice() {
    let clock = Clock::fixed(Timestamp::from_millis(1_700_000_000_000));
    let test = TestDb::with_clock(clock.clone()).await;
    let db = test.db();
    for n in 0..3 {
        emit(&db, "old", n).await;
    }
    outbox::stamp_all(&db).await.expect("stamps");
    assert_eq!(outbox::prune(&db).await.expect("prunes"), 0, "too young");
    clock.advance(8 * 86_400_000);
    emit(&db, "waiting", 3).await;
    clock.advance(8 * 86_400_000);
    assert_eq!(
        outbox::prune(&db).await.expect("prunes"),
        2,
        "all but the newest, and none that nobody has seen"
    );
    outbox::stamp_all(&db).await.expect("stamps");
    let events = outbox::events_after(&db, 0, 10).await.expect("reads");
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [3, 4]);
}
