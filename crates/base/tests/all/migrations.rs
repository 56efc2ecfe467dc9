//! The schema: applied twice it is the same, applied from nothing it is the golden one.

use base::db::migrate::{self, MigrateError, Migration};
use base::db::migrations::MIGRATIONS;
use base::db::schema;
use base::testing::TestDb;
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
