//! What writes is planned once for all values, so it must not need to know them: a batch is found along an index, however
//! much else there is.

use base::testing::TestDb;
use base::{idempotency, outbox};
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection, Row};

const MANY: &str = "
    insert into app_user (id, name, created_at) values ('00000000-0000-4000-8000-000000000001', 'somebody', now());
    insert into outbox (id, seq, kind, subject_kind, subject_id, data, correlation_id, created_at)
        select gen_random_uuid(), case when n > 100 then n end, 'test.happened', 'thing', n % 100, '{}', gen_random_uuid(), now()
        from generate_series(1, 20000) n;
    insert into idempotency (user_id, route, key, body_sha256, status, answer, created_at)
        select '00000000-0000-4000-8000-000000000001', 'r', n, sha256('x'), 200, '{}', now() - n * interval '1 second'
        from generate_series(1, 20000) n;
    analyze";

async fn plan(conn: &mut PgConnection, (sql, with): (&str, &str)) -> String {
    let types = if with.is_empty() { "" } else { "(timestamptz)" };
    let sql = format!(
        "set plan_cache_mode = force_generic_plan; deallocate all; prepare batch {types} as {sql}; explain execute batch {with}"
    );
    let lines = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(conn).await;
    let lines: Vec<String> = lines.expect("a plan").iter().map(|row| row.get(0)).collect();
    lines.join("\n")
}

#[tokio::test]
async fn batches_are_found_without_knowing_the_values() {
    let test = TestDb::new().await;
    let mut conn = test.superuser().connect().await.expect("connects");
    sqlx::raw_sql(MANY).execute(&mut conn).await.expect("fills");
    for (wanted, batch) in [
        ("using outbox_unstamped", (outbox::STAMP, "")),
        ("using idempotency_by_time", (idempotency::PRUNE, "(now())")),
    ] {
        let plan = plan(&mut conn, batch).await;
        assert!(plan.contains(wanted) && !plan.contains("Seq Scan"), "{plan}");
    }
}

#[tokio::test]
async fn whoever_writes_plans_once_and_whoever_reads_for_what_is_asked() {
    let test = TestDb::new().await;
    let db = test.db();
    for (pool, wanted) in [(db.bookkeeping(), "force_generic_plan"), (db.read(), "auto")] {
        let mode: String = sqlx::query_scalar("show plan_cache_mode")
            .fetch_one(pool)
            .await
            .expect("says");
        assert_eq!(mode, wanted);
    }
}

/// What is planned while a table is still empty goes on by that plan when it is full, until somebody counts its rows.
#[tokio::test]
async fn nobody_plans_to_read_a_whole_table_for_two_rows_while_it_is_empty() {
    let test = TestDb::new().await;
    let plan: Vec<String> = sqlx::query_scalar(
        "explain with next as materialized (select gen_random_uuid() as id union all select gen_random_uuid())
         update task set version = version + 1 from next where task.id = next.id",
    )
    .fetch_all(test.db().bookkeeping())
    .await
    .expect("a plan");
    let plan = plan.join("\n");
    assert!(
        plan.contains("task_pkey") && !plan.contains("Seq Scan on task"),
        "{plan}"
    );
}
