//! The schema: applied twice it is the same, applied from nothing it is the golden one.

use base::db::migrate::{self, MigrateError, Migration};
use base::db::migrations::MIGRATIONS;
use base::db::schema;
use base::testing::{PATIENCE, TestDb, eventually};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

async fn owner(test: &TestDb) -> PgConnection {
    PgConnection::connect(&test.owner_url())
        .await
        .expect("the owner can log in")
}

#[tokio::test]
async fn the_migrations_give_the_golden_schema() {
    let test = TestDb::new().await;
    let schema = schema::describe(&mut owner(&test).await)
        .await
        .expect("describes itself");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema.sql");
    #[expect(clippy::disallowed_methods, reason = "UPDATE=1 rewrites golden files")]
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &schema).expect("golden file is writable");
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    let differs = golden.lines().zip(schema.lines()).find(|(golden, now)| golden != now);
    assert_eq!(differs, None, "run UPDATE=1 cargo test -p base and read the diff");
    assert_eq!(golden.lines().count(), schema.lines().count());
}

#[tokio::test]
async fn every_migration_can_run_twice() {
    let test = TestDb::new().await;
    let mut conn = owner(&test).await;
    let before = schema::describe(&mut conn).await.expect("describes itself");
    for migration in MIGRATIONS {
        sqlx::raw_sql(AssertSqlSafe(migration.sql))
            .execute(&mut conn)
            .await
            .expect(migration.name);
    }
    assert_eq!(schema::describe(&mut conn).await.expect("describes itself"), before);
    assert!(migrate::migrate(&mut conn).await.expect("nothing to do").is_empty());
}

#[tokio::test]
async fn a_migration_changed_after_the_fact_is_refused() {
    let test = TestDb::new().await;
    let mut conn = owner(&test).await;
    let changed = Migration {
        sql: "select 1",
        ..MIGRATIONS[0]
    };
    let error = migrate::run(&mut conn, &[changed])
        .await
        .expect_err("differs from what was applied");
    assert!(
        matches!(error, MigrateError::Changed { name: "0001_base" }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_failing_migration_leaves_nothing_and_names_itself() {
    let test = TestDb::new().await;
    let mut conn = owner(&test).await;
    let before = schema::describe(&mut conn).await.expect("describes itself");
    let bad = Migration {
        version: 9999,
        name: "9999_bad",
        sql: "create table half (); select no_such_thing()",
    };
    let error = migrate::run(&mut conn, &[bad]).await.expect_err("fails");
    assert!(
        matches!(error, MigrateError::Failed { name: "9999_bad", .. }),
        "{error:?}"
    );
    assert_eq!(schema::describe(&mut conn).await.expect("describes itself"), before);
}

#[tokio::test]
async fn a_process_refuses_a_schema_that_is_behind() {
    let test = TestDb::new().await;
    let mut conn = owner(&test).await;
    migrate::check(&mut conn).await.expect("up to date");
    sqlx::query("delete from schema_migration where version = $1")
        .bind(MIGRATIONS.last().map(|newest| newest.version))
        .execute(&mut conn)
        .await
        .expect("the owner may");
    let error = migrate::check(&mut conn).await.expect_err("one is missing");
    assert!(matches!(error, MigrateError::Behind { .. }), "{error:?}");
}

/// A long look at a table keeps a migration from it, and not those who only want to look as well.
#[tokio::test]
async fn a_migration_that_waits_for_a_table_lets_others_by() {
    let test = TestDb::new().await;
    let (mut looks, mut other) = (owner(&test).await, owner(&test).await);
    let mut long = looks.begin().await.expect("begins");
    let look = "select count(*) from node";
    sqlx::query(look).execute(&mut *long).await.expect("looks");
    let mut migrator = owner(&test).await;
    let migrating = tokio::spawn(async move {
        let extra = Migration {
            version: 9000,
            name: "9000_extra",
            sql: "alter table node add column extra int",
        };
        migrate::run(&mut migrator, &[extra]).await
    });
    let db = test.db();
    eventually("it waits for the table", || async {
        let waits = "select count(*) from pg_locks where not granted and relation = 'node'::regclass";
        let waiting: i64 = sqlx::query_scalar(waits).fetch_one(db.read()).await.expect("asked");
        if waiting == 1 { Ok(()) } else { Err(waiting) }
    })
    .await;
    let by = tokio::time::timeout(PATIENCE, sqlx::query(look).execute(&mut other)).await;
    by.expect("it is let by").expect("looks");
    assert!(!migrating.is_finished());
    long.commit().await.expect("ends");
    let applied = migrating.await.expect("no panic").expect("applies");
    assert_eq!(applied, ["9000_extra"]);
}

#[tokio::test]
async fn two_migrators_at_once_apply_everything_once() {
    let test = TestDb::new().await;
    let extra = |version| Migration {
        version,
        name: "9000_extra",
        sql: "create table extra (id int primary key)",
    };
    let run = async |version| {
        let mut conn = owner(&test).await;
        migrate::run(&mut conn, &[extra(version)])
            .await
            .expect("applies or waits")
    };
    let (one, two) = tokio::join!(run(9000), run(9000));
    assert_eq!(one.len() + two.len(), 1);
}

/// A node's history grows for weeks, and what is open is always little.
#[tokio::test]
async fn open_tasks_are_found_without_reading_the_ones_that_have_ended() {
    let test = TestDb::new().await;
    let mut conn = owner(&test).await;
    // With nothing in the table any plan is cheap: this one is left out unless there is no other.
    sqlx::query("set enable_seqscan = off")
        .execute(&mut conn)
        .await
        .expect("set");
    for open in [
        "keyid = 'k' and state in ('queued', 'dispatched', 'unknown')",
        "state in ('dispatched', 'started') and lease_until < now()",
        "node_id = gen_random_uuid() and state in ('queued', 'dispatched', 'started', 'unknown')",
        "node_id = gen_random_uuid() and state in ('dispatched', 'started', 'unknown')",
    ] {
        let explain = format!("explain select id from task where {open}");
        let plan: Vec<String> = sqlx::query_scalar(AssertSqlSafe(explain))
            .fetch_all(&mut conn)
            .await
            .expect("a plan");
        let plan = plan.join("\n");
        assert!(plan.contains("task_open"), "{open}: {plan}");
    }
}
