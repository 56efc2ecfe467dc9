//! Events: every process hears every one, in one order.

use base::outbox::{self, Bus, Next, Reader, Wanted};
use base::testing::{PATIENCE, TestDb, eventually};
use base::{Actor, Clock, Db, Target};
use model::time::Timestamp;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
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
    assert_eq!(outbox::prune(&db, 0).await.expect("prunes").gone, 0, "too young");
    clock.advance(8 * 86_400_000);
    emit(&db, "waiting", 3).await;
    clock.advance(8 * 86_400_000);
    assert_eq!(
        outbox::prune(&db, 0).await.expect("prunes").gone,
        2,
        "all but the newest, and none that nobody has seen"
    );
    outbox::stamp_all(&db).await.expect("stamps");
    let events = outbox::events_after(&db, 0, 10).await.expect("reads");
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [3, 4]);
}

/// Some thousand events, a minute apart; the younger ones are within a week, by two hours at least.
const MANY: &str = "insert into outbox (id, seq, kind, subject_kind, subject_id, data, correlation_id, created_at)
        select gen_random_uuid(), 6001 - n, 'test.happened', 'thing', n % 100, '{}', gen_random_uuid(),
            now() - interval '7 days' - (n - 3500.5) * interval '1 minute' - sign(n - 3500.5) * interval '2 hours'
        from generate_series(1, 6000) n;
    analyze outbox";

#[tokio::test]
async fn old_events_go_in_batches_along_their_numbers() {
    let test = TestDb::new().await;
    let db = test.db();
    let mut conn = PgConnection::connect_with(&test.superuser()).await.expect("connects");
    sqlx::raw_sql(MANY).execute(&mut conn).await.expect("fills");
    for mode in ["force_custom_plan", "force_generic_plan"] {
        let sql = format!(
            "set plan_cache_mode = {mode}; deallocate all; prepare prune (timestamptz, bigint, timestamptz) as {};
             explain execute prune(now(), 0, now())",
            outbox::PRUNE
        );
        let lines = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut conn).await;
        let lines: Vec<String> = lines.expect("a plan").iter().map(|row| row.get(0)).collect();
        let plan = lines.join("\n");
        assert!(
            plan.contains("Index Scan using outbox_by_seq") && !plan.contains("Seq Scan"),
            "{mode}: {plan}"
        );
    }
    for (gone, next) in [(1000, Some(1000)), (1000, Some(2000)), (500, Some(3000)), (0, None)] {
        let pruned = outbox::prune(&db, 0).await.expect("prunes");
        assert_eq!(pruned, outbox::Pruned { gone, next });
    }
    let rest = outbox::events_after(&db, 0, 1).await.expect("reads");
    assert_eq!(rest[0].seq, 2501, "the younger ones stay");
    assert_eq!(outbox::last_seq(&db).await.expect("reads"), 6000);
}

/// A clock that was far ahead for a while: what it dated stays until then, and keeps nothing else.
#[tokio::test]
async fn events_of_the_future_keep_no_old_ones() {
    let test = TestDb::new().await;
    let db = test.db();
    let mut conn = PgConnection::connect_with(&test.superuser()).await.expect("connects");
    sqlx::raw_sql(MANY).execute(&mut conn).await.expect("fills");
    let ahead = "update outbox set created_at = now() + interval '1 year' where seq <= 1600";
    sqlx::query(ahead).execute(&mut conn).await.expect("dated");
    let stop = CancellationToken::new();
    let running = tokio::spawn(outbox::relay(db.clone(), stop.clone()));
    eventually("old events are gone", || async {
        match outbox::events_after(&db, 1600, 1).await.expect("reads")[0].seq {
            2501 => Ok(()),
            seq => Err(seq),
        }
    })
    .await;
    stop.cancel();
    running.await.expect("stops");
    let kept: i64 = sqlx::query_scalar("select count(*) from outbox")
        .fetch_one(&mut conn)
        .await
        .expect("counts");
    assert_eq!(kept, 1600 + 3500);
}

#[tokio::test]
async fn the_relay_goes_on_removing_while_there_are_old_events() {
    let test = TestDb::new().await;
    let db = test.db();
    let mut conn = PgConnection::connect_with(&test.superuser()).await.expect("connects");
    sqlx::raw_sql(MANY).execute(&mut conn).await.expect("fills");
    let stop = CancellationToken::new();
    let running = tokio::spawn(outbox::relay(db.clone(), stop.clone()));
    eventually("old events are gone", || async {
        match outbox::events_after(&db, 0, 1).await.expect("reads")[0].seq {
            2501 => Ok(()),
            seq => Err(seq),
        }
    })
    .await;
    stop.cancel();
    running.await.expect("stops");
}

/// An event whose number was drawn, and whose transaction is still open.
const DRAWN: &str = "insert into outbox (id, kind, subject_kind, subject_id, data, correlation_id, created_at)
    values (gen_random_uuid(), 'test.happened', 'thing', 'slow', '{}', gen_random_uuid(), now())";

#[tokio::test]
async fn numbers_drawn_early_and_committed_late_are_neither_skipped_nor_given_twice() {
    let test = TestDb::new().await;
    let db = test.db();
    let mut slow = db.bookkeeping().begin().await.expect("begins");
    sqlx::query(DRAWN).execute(&mut *slow).await.expect("draws");
    let bus = Bus::open(db.clone()).await.expect("opens");
    let mut reader = Reader::open(&bus, None).await.expect("opens");
    let stop = CancellationToken::new();
    let tail = tokio::spawn(bus.run(stop.clone()));
    // Each is stamped, and heard, while the slow one is open.
    for n in 0..3 {
        emit(&db, "fast", n).await;
        assert_eq!(outbox::stamp_all(&db).await.expect("stamps"), 1);
        let heard = next(&mut reader).await;
        assert_eq!((heard.0, heard.1.as_str()), (n + 1, "fast"));
    }
    slow.commit().await.expect("commits");
    emit(&db, "fast", 3).await;
    assert_eq!(outbox::stamp_all(&db).await.expect("stamps"), 2);
    assert_eq!(next(&mut reader).await, (4, "slow".to_owned()));
    assert_eq!(next(&mut reader).await, (5, "fast".to_owned()));
    stop.cancel();
    tail.await.expect("stops");
}

async fn next(reader: &mut Reader) -> (i64, String) {
    let event = async {
        loop {
            match reader.next().await.expect("reads") {
                Next::Event(event) => break event,
                Next::Behind(until) => {
                    let everything = Wanted::default();
                    reader.look_back(until, &everything).await.expect("reads");
                }
            }
        }
    };
    let event = tokio::time::timeout(PATIENCE, event).await.expect("in time");
    (event.seq, event.subject_id.clone())
}

#[tokio::test]
async fn a_reader_too_slow_for_the_bus_goes_on_from_the_table() {
    let test = TestDb::new().await;
    let db = test.db();
    let bus = Bus::open(db.clone()).await.expect("opens");
    let mut reader = Reader::open(&bus, None).await.expect("opens");
    let stop = CancellationToken::new();
    let tail = tokio::spawn(bus.clone().run(stop.clone()));
    // More than the bus keeps for anybody.
    sqlx::query(
        "insert into outbox (id, kind, subject_kind, subject_id, data, correlation_id, created_at)
         select gen_random_uuid(), 'test.happened', 'thing', i::text, '{}', gen_random_uuid(), now()
         from generate_series(1, 3000) as series (i) order by series.i",
    )
    .execute(db.bookkeeping())
    .await
    .expect("inserts");
    outbox::stamp_all(&db).await.expect("stamps");
    let mut last = bus.subscribe();
    emit(&db, "last", 0).await;
    outbox::stamp_all(&db).await.expect("stamps");
    // Once the bus has told the last one, the first ones have fallen out of it.
    while tokio::time::timeout(PATIENCE, last.recv())
        .await
        .expect("in time")
        .map_or(true, |e| e.seq < 3001)
    {}
    for n in 1..=3000 {
        assert_eq!(next(&mut reader).await, (n, n.to_string()));
    }
    assert_eq!(next(&mut reader).await, (3001, "last".to_owned()));
    assert_eq!(reader.at(), 3001);
    stop.cancel();
    tail.await.expect("stops");
}

#[tokio::test]
async fn a_relay_that_dies_in_the_middle_is_followed_by_another() {
    let test = TestDb::new().await;
    let (db, stop) = (test.db(), CancellationToken::new());
    let next = tokio::spawn(outbox::relay(test.db(), stop.clone()));
    // One that has the lock and has stamped, and gets no further.
    let mut dying = sqlx::PgConnection::connect_with(db.connect_options())
        .await
        .expect("connects");
    sqlx::raw_sql("begin").execute(&mut dying).await.expect("begins");
    sqlx::query("select pg_advisory_xact_lock($1)")
        .bind(base::db::Lock::OutboxRelay.key())
        .execute(&mut dying)
        .await
        .expect("locks");
    for n in 0..4 {
        emit(&db, "a", n).await;
    }
    sqlx::query("update outbox set seq = drawn")
        .execute(&mut dying)
        .await
        .expect("stamps");
    assert_eq!(outbox::stamp_all(&db).await.expect("stands by"), 0);
    assert_eq!(
        outbox::last_seq(&db).await.expect("reads"),
        0,
        "nobody saw what was not committed"
    );
    drop(dying); // as a kill -9 would: the socket closes, and nobody says goodbye
    eventually("the other one goes on", async || {
        let last = outbox::last_seq(&db).await.expect("reads");
        if last == 4 { Ok(()) } else { Err(last) }
    })
    .await;
    let events = outbox::events_after(&db, 0, 10).await.expect("reads");
    let order: Vec<_> = events
        .iter()
        .map(|event| (event.seq, event.data["n"].as_i64()))
        .collect();
    assert_eq!(order, [(1, Some(0)), (2, Some(1)), (3, Some(2)), (4, Some(3))]);
    stop.cancel();
    next.await.expect("stops");
}
