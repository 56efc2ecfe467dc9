//! The one transaction: all of it or nothing, and no way around it.

use base::testing::TestDb;
use base::wake::Topic;
use base::{Actor, Db, Target};
use model::id::NodeId;
use model::signal::Code;
use serde_json::json;
use std::time::Duration;

async fn counts(db: &Db) -> (i64, i64, i64) {
    sqlx::query_as(
        "select (select count(*) from app_user), (select count(*) from outbox), (select count(*) from audit)",
    )
    .fetch_one(db.read())
    .await
    .expect("readable")
}

const INSERT: &str = "insert into app_user (id, name, created_at) values (gen_random_uuid(), 'ada', now())";

#[tokio::test]
async fn a_change_writes_row_event_and_audit_together() {
    let test = TestDb::new().await;
    let db = test.db();
    let node = NodeId::new();
    let actor = Actor::system("test");
    let mut change = db.change(&actor, "user.create", node).await.expect("opens");
    sqlx::query(INSERT).execute(change.conn()).await.expect("inserts");
    change
        .event("test.seen", node, json!({ "n": 1 }))
        .detail(json!({ "why": "test" }));
    change.also("user.greet", Target::new("user", "ada"));
    assert_eq!(counts(&db).await, (0, 0, 0), "nothing is visible before the commit");
    change.commit().await.expect("commits");
    assert_eq!(counts(&db).await, (1, 1, 2));
    let (action, target, outcome, details): (String, String, String, serde_json::Value) =
        sqlx::query_as("select action, target_id, outcome, details from audit order by id limit 1")
            .fetch_one(db.read())
            .await
            .expect("readable");
    assert_eq!((action.as_str(), outcome.as_str()), ("user.create", "ok"));
    assert_eq!((target, details), (node.to_string(), json!({ "why": "test" })));
}

#[tokio::test]
async fn what_a_change_tells_is_all_there_and_in_its_order() {
    let test = TestDb::new().await;
    let db = test.db();
    let node = NodeId::new();
    let mut change = db.change(&Actor::system("test"), "test.0", node).await.expect("opens");
    let actions = ["test.1", "test.2", "test.3", "test.4"];
    for (n, action) in actions.into_iter().enumerate() {
        change.also(action, node).detail(json!({ "n": n }));
        change.event(action, node, json!({ "n": n }));
    }
    change.commit().await.expect("commits");
    // No event at all is fine too.
    let quiet = db.change(&Actor::system("test"), "test.5", node).await.expect("opens");
    quiet.commit().await.expect("commits");
    let told: Vec<(String, serde_json::Value)> = sqlx::query_as("select kind, data from outbox order by drawn")
        .fetch_all(db.read())
        .await
        .expect("readable");
    let expected: Vec<_> = actions
        .iter()
        .enumerate()
        .map(|(n, a)| ((*a).to_owned(), json!({ "n": n })))
        .collect();
    assert_eq!(told, expected);
    let audited: Vec<(String, serde_json::Value)> = sqlx::query_as("select action, details from audit order by action")
        .fetch_all(db.read())
        .await
        .expect("readable");
    let mut rows = vec![("test.0".to_owned(), json!({}))];
    rows.extend(expected);
    rows.push(("test.5".to_owned(), json!({})));
    assert_eq!(audited, rows);
}

#[tokio::test]
async fn a_change_dropped_or_failed_leaves_nothing_and_wakes_nobody() {
    let test = TestDb::new().await;
    let db = test.db();
    let mut tasks = db.wake().subscribe(Topic::Tasks);
    db.wake().on_call(|node| panic!("{node} was called without a commit"));
    let actor = Actor::system("test");
    let mut change = db
        .change(&actor, "user.create", Target::new("user", "ada"))
        .await
        .expect("opens");
    sqlx::query(INSERT).execute(change.conn()).await.expect("inserts");
    change
        .event("test.y", Target::new("user", "ada"), json!({}))
        .call(NodeId::new())
        .wake(Topic::Tasks);
    drop(change);

    let mut change = db
        .change(&actor, "user.create", Target::new("user", "ada"))
        .await
        .expect("opens");
    change.call(NodeId::new()).wake(Topic::Tasks);
    sqlx::query("select 1 / 0")
        .execute(change.conn())
        .await
        .expect_err("aborts the transaction");
    change
        .commit()
        .await
        .expect_err("an aborted transaction cannot be committed");
    assert_eq!(counts(&db).await, (0, 0, 0));
    let rung = tokio::time::timeout(Duration::from_millis(20), tasks.look_again(Duration::from_secs(60))).await;
    assert!(rung.is_err(), "woken without a commit");
}

#[tokio::test]
async fn a_refusal_is_kept_although_nothing_else_is() {
    let test = TestDb::new().await;
    let db = test.db();
    let node = NodeId::new();
    let actor = Actor::node(node, uuid::Uuid::now_v7()).at(Some([127, 0, 0, 1].into()));
    db.refusal(&actor, "task.result", node, Code::StaleFence)
        .await
        .expect("recorded");
    let row: (String, String, String, Option<String>, Option<String>) =
        sqlx::query_as("select actor_kind, actor_id, outcome, code, address from audit")
            .fetch_one(db.read())
            .await
            .expect("one row");
    let expected = (
        "node".into(),
        node.to_string(),
        "refused".into(),
        Some("stale_fence".into()),
        Some("127.0.0.1".into()),
    );
    assert_eq!(row, expected);
}

#[tokio::test]
async fn readers_cannot_write_and_nobody_can_rewrite_the_audit() {
    let test = TestDb::new().await;
    let db = test.db();
    db.refusal(&Actor::system("test"), "x.y", Target::new("user", "a"), Code::Forbidden)
        .await
        .expect("recorded");
    sqlx::query(INSERT)
        .execute(db.read())
        .await
        .expect_err("readers are read-only");
    for statement in [
        "update audit set action = 'z'",
        "delete from audit",
        "truncate audit",
        "update audit_seal set pos = 1",
        "delete from audit_seal",
        "insert into audit_seal (pos, audit_id, hash) select 1, id, sha256('') from audit",
        "update audit_head set pos = 0",
        "drop table audit",
        "alter table audit disable trigger all",
        "create table mine (id int)",
        "update installation set id = gen_random_uuid()",
        "update outbox set data = '{}'",
        "set role gpuaas_owner",
    ] {
        let error = sqlx::query(sqlx::AssertSqlSafe(statement))
            .execute(db.bookkeeping())
            .await
            .expect_err(statement);
        let state = error
            .as_database_error()
            .and_then(|error| error.code().map(|code| code.into_owned()));
        assert_eq!(state.as_deref(), Some("42501"), "{statement}: {error}");
    }
}

/// Whoever asked has gone, at any moment of it. A statement that stands alone on the same connection must stand alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_dropped_while_it_opens_leaves_no_transaction() {
    let test = TestDb::new().await;
    let db = Db::lazy(test.db().connect_options().clone(), base::Clock::real(), 1);
    sqlx::query("select 1")
        .execute(db.bookkeeping())
        .await
        .expect("connects");
    let (mut opened, mut dropped) = (0, 0);
    for round in 0..400u64 {
        let actor = Actor::system("test");
        let change = db.change(&actor, "user.create", NodeId::new());
        // By time, and by turns: how many the clock catches depends on the machine, a first turn is always too early.
        let ready = if round % 2 == 0 {
            let patience = Duration::from_micros(round % 200 * 5);
            tokio::time::timeout(patience, change).await.ok()
        } else {
            tokio::select! {
                biased;
                () = turns(1 + round % 6) => None,
                change = change => Some(change),
            }
        };
        match ready {
            Some(change) => drop((change.expect("opens"), opened += 1)),
            None => dropped += 1,
        }
        sqlx::query("insert into app_user (id, name, created_at) values (gen_random_uuid(), $1, now())")
            .bind(format!("user-{round}"))
            .execute(db.bookkeeping())
            .await
            .expect("inserts");
        let seen = counts(&test.db()).await.0;
        assert_eq!(seen, round as i64 + 1, "{opened} were opened, {dropped} dropped");
    }
    assert!(dropped > 20, "{dropped} were dropped");
}

async fn turns(count: u64) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}
