//! The audit chain against somebody who holds the database's superuser.

use base::audit::{self, AuditFilter, Head, ProjectAuditFilter, Sealer};
use base::db::Lock;
use base::testing::{TestDb, eventually};
use base::{Actor, Clock, Db, Target};
use model::api::AuditVerdict;
use model::id::{NodeId, ProjectId, TokenId, UserId};
use model::signal::Code;
use model::time::Timestamp;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tokio_util::sync::CancellationToken;

async fn write(db: &Db, n: usize) {
    for i in 0..n {
        db.failure(&Actor::system("test"), "x.y", Target::new("thing", i), Code::Forbidden)
            .await
            .expect("recorded");
    }
}

async fn sealed(n: usize) -> (TestDb, Db) {
    let test = TestDb::new().await;
    let db = test.db();
    write(&db, n).await;
    assert_eq!(audit::seal_all(&db).await.expect("seals"), n as u64);
    (test, db)
}

async fn tamper(test: &TestDb, sql: &'static str) {
    let mut conn = PgConnection::connect_with(&test.superuser()).await.expect("connects");
    // As an intruder would: without foreign keys in the way.
    sqlx::raw_sql("set session_replication_role = replica")
        .execute(&mut conn)
        .await
        .expect("superuser");
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.expect(sql);
    assert!(done.rows_affected() > 0, "the fault must really have fired: {sql}");
    conn.close().await.expect("closes");
}

async fn verdict(db: &Db, known: Option<&Head>) -> AuditVerdict {
    audit::verify(db, known).await.expect("verifies")
}

#[tokio::test]
async fn an_untouched_chain_holds_and_a_young_tail_is_only_told() {
    let (_test, db) = sealed(1201).await; // more than one page and one batch
    write(&db, 2).await;
    let seen = verdict(&db, None).await;
    assert_eq!((seen.sealed, seen.unsealed, seen.broken), (1201, 2, None));
    assert!(seen.oldest_unsealed_ms.is_some_and(|age| age < 60_000));
    let head: Head = seen.head.expect("a head").parse().expect("parses");
    assert_eq!(audit::seal_all(&db).await.expect("seals"), 2);
    let seen = verdict(&db, Some(&head)).await;
    assert_eq!((seen.sealed, seen.unsealed, seen.broken), (1203, 0, None));
}

#[tokio::test]
async fn abuse_46_audit_rows_edited_deleted_or_reordered_are_named() {
    let cases: [(&'static str, i64, &str); 9] = [
        (
            "update audit set actor_id = 'x' where id = (select audit_id from audit_seal where pos = 3)",
            3,
            "altered",
        ),
        (
            "update audit set details_text = '{\"a\":1}' where id = (select audit_id from audit_seal where pos = 5)",
            5,
            "altered",
        ),
        (
            "update audit set at = at + interval '1 microsecond' where id = (select audit_id from audit_seal where pos = 1)",
            1,
            "altered",
        ),
        (
            "delete from audit where id = (select audit_id from audit_seal where pos = 4)",
            4,
            "deleted",
        ),
        ("delete from audit_seal where pos = 2", 2, "missing"),
        (
            "alter table audit_seal drop constraint audit_seal_audit_id_key;
             update audit_seal s set audit_id = o.audit_id from audit_seal o where s.pos in (3, 4) and o.pos = 7 - s.pos",
            3,
            "altered",
        ),
        ("update audit_seal set hash = sha256('x') where pos = 4", 4, "altered"),
        ("delete from audit_seal where pos = 6", 6, "cut off"),
        (
            "with gone as (delete from audit_seal where pos >= 5 returning audit_id) delete from audit where id in (select audit_id from gone)",
            5,
            "cut off",
        ),
    ];
    for (sql, pos, why) in cases {
        let (test, db) = sealed(6).await;
        tamper(&test, sql).await;
        let seen = verdict(&db, None).await;
        let broken = seen.broken.unwrap_or_else(|| panic!("not seen: {sql}"));
        assert_eq!(broken.pos, pos, "{sql}: {broken:?}");
        assert!(broken.why.contains(why), "{sql}: {broken:?}");
    }
}

#[tokio::test]
async fn a_chain_rewritten_with_its_head_differs_from_a_head_kept_elsewhere() {
    let (test, db) = sealed(4).await;
    let head: Head = verdict(&db, None).await.head.expect("a head").parse().expect("parses");
    tamper(&test, "update audit set actor_id = 'innocent'").await;
    for sql in ["delete from audit_seal", "delete from audit_head"] {
        tamper(&test, sql).await;
    }
    audit::seal_all(&db).await.expect("seals anew");
    assert_eq!(verdict(&db, None).await.broken, None, "alone it looks whole");
    let broken = verdict(&db, Some(&head))
        .await
        .broken
        .expect("but not beside the old head");
    assert!(broken.why.contains("rewritten"), "{broken:?}");
    assert!("4:xyz".parse::<Head>().is_err());
}

#[tokio::test]
async fn rows_committed_late_are_sealed_too_and_two_sealers_make_one_chain() {
    let clock = Clock::fixed(Timestamp::from_millis(1_700_000_000_000));
    let test = TestDb::with_clock(clock.clone()).await;
    let (one, two) = (test.db(), test.db());
    let slow = one
        .change(&Actor::system("slow"), "x.slow", Target::new("thing", 0))
        .await
        .expect("opens");
    clock.advance(5_000);
    write(&one, 3).await;
    audit::seal_all(&one).await.expect("seals");
    slow.commit().await.expect("commits a row older than the sealed ones");
    write(&one, 700).await;
    let (a, b) = tokio::join!(audit::seal_all(&one), audit::seal_all(&two));
    a.expect("seals");
    b.expect("seals or stands by");
    audit::seal_all(&one).await.expect("seals the rest");
    let seen = verdict(&one, None).await;
    assert_eq!((seen.sealed, seen.unsealed, seen.broken), (704, 0, None));
}

/// Has a transaction been open for longer than clocks may differ? Much shorter than the time between two wide looks.
const SLOW: &str = "select count(*) > 0 from pg_stat_activity
    where datname = current_database() and clock_timestamp() - xact_start > interval '4500 ms'";

#[tokio::test]
async fn a_look_goes_back_to_what_was_open_at_the_last_one() {
    let test = TestDb::new().await;
    let db = test.db();
    let mut sealer = Sealer::default();
    sealer.pass(&db).await.expect("looks at all there is");
    let slow = db
        .change(&Actor::system("slow"), "x.slow", Target::new("thing", 0))
        .await
        .expect("opens");
    eventually("it is slow", || async {
        let slow: bool = sqlx::query_scalar(SLOW).fetch_one(db.read()).await.expect("asked");
        if slow { Ok(()) } else { Err("not yet") }
    })
    .await;
    sealer.pass(&db).await.expect("sees that it is open");
    slow.commit().await.expect("commits");
    sealer.pass(&db).await.expect("looks that far back");
    assert_eq!(verdict(&db, None).await.sealed, 1);
}

/// Knowing what is open only makes a look cheaper.
#[tokio::test]
async fn a_server_that_does_not_say_what_is_open_keeps_no_row_from_its_seal() {
    let test = TestDb::new().await;
    let db = test.db();
    let mut sealer = Sealer::default();
    sealer.pass(&db).await.expect("looks at all there is");
    let hide = "revoke select on pg_stat_activity from public;
        select where not has_table_privilege('gpuaas_app', 'pg_stat_activity', 'select')";
    tamper(&test, hide).await;
    for n in 1..=2 {
        write(&db, 1).await;
        sealer.pass(&db).await.expect("looks at the last minutes");
        assert_eq!(verdict(&db, None).await.sealed, n);
    }
}

async fn until_sealed(db: &Db, n: i64) {
    eventually("rows are sealed", || async {
        let seen = verdict(db, None).await;
        if seen.sealed == n { Ok(()) } else { Err(seen) }
    })
    .await
}

/// A row that cannot be sealed stands for a look that takes too long.
const POISON: &str = "create function no() returns trigger language plpgsql as
        $$ begin raise 'canceling statement due to statement timeout' using errcode = '57014'; end $$;
    create trigger no before insert on audit_seal for each row
        when (new.audit_id = '00000000-0000-4000-8000-000000000001') execute function no();
    insert into audit (id, at, actor_kind, actor_id, action, target_kind, target_id, outcome, correlation_id)
        values ('00000000-0000-4000-8000-000000000001', now() - interval '1 day', 'system', 'x', 'x.y', 'thing', 'old', 'ok',
                gen_random_uuid());";

const NONE_AT_ALL: &str = "create trigger never before insert on audit_seal for each row execute function no();
    update audit_head set pos = pos";

#[tokio::test]
async fn old_rows_that_cannot_be_sealed_hold_up_no_new_ones_and_their_age_is_told() {
    let test = TestDb::new().await;
    let db = test.db();
    tamper(&test, POISON).await;
    write(&db, 3).await;
    let stop = CancellationToken::new();
    let running = tokio::spawn(audit::sealer(db.clone(), stop.clone()));
    until_sealed(&db, 3).await;
    write(&db, 2).await;
    until_sealed(&db, 5).await;
    stop.cancel();
    running.await.expect("stops");
    let mut sealer = Sealer::default();
    for _ in 0..2 {
        let age = sealer.pass(&db).await.expect("known");
        assert!((86_400.0..87_000.0).contains(&age), "{age}");
    }
    tamper(&test, NONE_AT_ALL).await;
    write(&db, 1).await;
    let age = Sealer::default().pass(&db).await.expect("known");
    assert!(age > 86_400.0, "also by one who knows nothing yet: {age}");
    tamper(&test, "drop function no cascade; update audit_head set pos = pos").await;
    sealer.pass(&db).await;
    assert_eq!(sealer.pass(&db).await, Some(0.0));
    assert_eq!(verdict(&db, None).await.sealed, 7);
}

/// Sealed rows of some days.
const MANY: &str = "insert into audit (id, at, actor_kind, actor_id, action, target_kind, target_id, outcome, correlation_id)
        select gen_random_uuid(), now() - n * interval '10 seconds', 'system', n % 50, 'x.y', 'thing', n, 'ok', gen_random_uuid()
        from generate_series(100, 40000) n;
    insert into audit_seal (pos, audit_id, hash) select row_number() over (order by at), id, sha256('') from audit;
    insert into audit_head (pos, hash) select count(*), sha256('') from audit_seal;";

/// Between the slices of many sealed rows.
const LATE: &str =
    "insert into audit (id, at, actor_kind, actor_id, action, target_kind, target_id, outcome, correlation_id)
    select gen_random_uuid(), now() - n * interval '1 day', 'system', 'x', 'x.y', 'thing', n, 'ok', gen_random_uuid()
    from generate_series(1, 5) n";

#[tokio::test]
async fn a_late_row_is_found_between_many_by_looks_that_are_each_small() {
    let clock = Clock::fixed(Clock::real().now());
    let test = TestDb::with_clock(clock.clone()).await;
    let db = test.db();
    tamper(&test, MANY).await;
    tamper(&test, LATE).await;
    let mut conn = PgConnection::connect_with(&test.superuser()).await.expect("connects");
    sqlx::raw_sql("analyze").execute(&mut conn).await.expect("analyzes");
    for mode in ["force_custom_plan", "force_generic_plan"] {
        for (sql, types, of) in [
            (
                audit::slice::EDGE,
                "timestamptz, uuid",
                "'1970-01-01', gen_random_uuid()",
            ),
            (
                audit::slice::COUNT,
                "timestamptz, uuid",
                "'1970-01-01', gen_random_uuid()",
            ),
            (
                audit::slice::UNSEALED,
                "timestamptz, uuid, bigint",
                "'1970-01-01', gen_random_uuid(), 500",
            ),
        ] {
            let sql = format!(
                "set plan_cache_mode = {mode}; deallocate all; prepare one ({types}) as {sql};
                 explain (analyze, costs off, timing off) execute one({of})"
            );
            let lines = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut conn).await;
            let lines: Vec<String> = lines.expect("a plan").iter().map(|row| row.get(0)).collect();
            let plan = lines.join("\n");
            let read = lines.iter().find(|line| line.contains("using audit_by_time"));
            assert!(
                read.is_some_and(|line| line.contains("rows=5000")) && !plan.contains("Seq Scan"),
                "{mode}: {plan}"
            );
        }
    }
    assert_eq!(verdict(&db, None).await.unsealed, 5);
    let mut sealer = Sealer::default();
    for _ in 0..2 {
        sealer.pass(&db).await.expect("known");
    }
    assert_eq!(verdict(&db, None).await.unsealed, 0, "found by the walk of the start");
    tamper(&test, LATE).await;
    sealer.pass(&db).await;
    assert_eq!(
        verdict(&db, None).await.unsealed,
        5,
        "nobody looks at all of it all the time"
    );
    clock.advance(3_600_000);
    for _ in 0..2 {
        sealer.pass(&db).await.expect("known");
    }
    assert_eq!(
        verdict(&db, None).await.unsealed,
        0,
        "found by the walk of the next hour"
    );
}

#[tokio::test]
async fn whoever_stands_by_tells_the_age_of_what_another_does_not_seal() {
    let clock = Clock::fixed(Clock::real().now());
    let test = TestDb::with_clock(clock.clone()).await;
    let db = test.db();
    let mut other = test.db().bookkeeping().begin().await.expect("begins");
    sqlx::query("select pg_advisory_xact_lock($1)")
        .bind(Lock::AuditSealer.key())
        .execute(&mut *other)
        .await
        .expect("locked");
    let mut sealer = Sealer::default();
    assert_eq!(sealer.pass(&db).await, Some(0.0));
    write(&db, 2).await;
    clock.advance(60_000);
    assert_eq!(sealer.pass(&db).await, Some(60.0));
    clock.advance(3_600_000);
    assert_eq!(sealer.pass(&db).await, Some(3660.0), "also when it is recent no longer");
    other.rollback().await.expect("ends");
    sealer.pass(&db).await;
    assert_eq!(sealer.pass(&db).await, Some(0.0));
    assert_eq!(verdict(&db, None).await.sealed, 2);
}

#[tokio::test]
async fn the_list_pages_newest_first_and_filters() {
    let (test, db) = sealed(5).await;
    let app = test.app().await;
    let filter = AuditFilter {
        limit: Some(2),
        action: Some("x.y".into()),
        ..AuditFilter::default()
    };
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = audit::list(
            &db,
            &AuditFilter {
                after,
                ..filter.clone()
            },
            &app.cursors,
        )
        .await
        .expect("lists");
        seen.extend(page.items.into_iter().map(|row| (row.target_id, row.pos)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let expected: Vec<_> = (0..5).rev().map(|n| (n.to_string(), Some(n + 1))).collect();
    assert_eq!(seen, expected);
    let forged = AuditFilter {
        after: Some("AAAA".into()),
        ..filter
    };
    assert_eq!(
        audit::list(&db, &forged, &app.cursors)
            .await
            .expect_err("not ours")
            .code,
        Code::CursorInvalid
    );
}

/// Two projects with a long past each, and much that is nobody's.
const OF_TWO: &str =
    "insert into audit (id, at, actor_kind, actor_id, action, target_kind, target_id, outcome, correlation_id, project_id)
    select gen_random_uuid(), now() - n * interval '1 second', 'user', 'x', 'x.y',
        case when n % 40 < 2 then 'project' else 'thing' end, n, 'ok', gen_random_uuid(),
        case n % 40 when 0 then uuid '00000000-0000-4000-8000-000000000001' when 1 then uuid '00000000-0000-4000-8000-000000000002' end
    from generate_series(1, 40000) n";

#[tokio::test]
async fn a_projects_audit_is_read_along_its_own_index_from_any_place() {
    let test = TestDb::new().await;
    tamper(&test, OF_TWO).await;
    let mut conn = PgConnection::connect_with(&test.superuser()).await.expect("connects");
    sqlx::raw_sql("analyze").execute(&mut conn).await.expect("analyzes");
    for mode in ["force_custom_plan", "force_generic_plan"] {
        for place in ["null, null", "now() - interval '9 hours', gen_random_uuid()"] {
            let sql = format!(
                "set plan_cache_mode = {mode}; deallocate all;
                 prepare one (uuid, timestamptz, uuid, text, text, text, text, uuid, bigint, bigint) as {};
                 explain (analyze, costs off, timing off)
                 execute one('00000000-0000-4000-8000-000000000001', {place}, null, null, null, null, null, 51, 2000)",
                audit::OF_PROJECT
            );
            let lines = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut conn).await;
            let plan: Vec<String> = lines.expect("a plan").iter().map(|row| row.get(0)).collect();
            let plan = plan.join("\n");
            assert!(
                plan.contains("audit_of_project") && !plan.contains("Seq Scan") && !plan.contains("Rows Removed"),
                "{mode} {place}: {plan}"
            );
            // As those plan who read: no more than the page.
            let page = plan.lines().find(|line| line.contains("Scan using audit_of_project"));
            assert!(
                mode == "force_generic_plan" || page.is_some_and(|line| line.contains("rows=51")),
                "{place}: {plan}"
            );
        }
    }
}

const OF_ONE: &str =
    "insert into audit (id, at, actor_kind, actor_id, action, target_kind, target_id, outcome, correlation_id, project_id)
    select gen_random_uuid(), now() - n * interval '1 second', 'user', 'x',
        case n when 1 then 'first.one' when 4100 then 'last.one' else 'x.y' end, 'project', n, 'ok', gen_random_uuid(),
        '00000000-0000-0000-0000-000000000001'
    from generate_series(1, 4100) n";

#[tokio::test]
async fn a_filter_that_fits_hardly_anything_costs_no_more_than_a_page() {
    let test = TestDb::new().await;
    let (db, app) = (test.db(), test.app().await);
    tamper(&test, OF_ONE).await;
    let project = ProjectId::from(uuid::Uuid::from_u128(1));
    for (action, pages) in [("first.one", [1, 0, 0]), ("last.one", [0, 0, 1]), ("no.one", [0, 0, 0])] {
        let mut after = None;
        for (nth, found) in pages.into_iter().enumerate() {
            let filter = ProjectAuditFilter {
                action: Some(action.to_owned()),
                after,
                ..ProjectAuditFilter::default()
            };
            let page = audit::list_of_project(&db, project, &filter, &app.cursors).await;
            let page = page.expect("a page");
            assert_eq!(page.items.len(), found, "{action}, page {nth}");
            assert_eq!(page.next.is_some(), nth < 2, "{action}: 2000 rows each, and a hundred");
            after = page.next;
        }
    }
}

#[tokio::test]
async fn whose_a_row_is_the_database_finds_out_and_nobody_says() {
    let test = TestDb::new().await;
    let (db, app) = (test.db(), test.app().await);
    let (one, two, token) = (ProjectId::new(), ProjectId::new(), TokenId::new());
    let sql = format!(
        "insert into app_user (id, name, created_at) values ('{0}', 'ada', now());
         insert into project (id, name, created_at) values ('{1}', 'one', now());
         insert into api_token (id, user_id, name, sha256, scopes, expires_at, created_at, project_id, project_role)
         values ('{2}', '{0}', 'ci', sha256('x'), '{{project}}', now(), now(), '{1}', 'viewer')",
        UserId::new().uuid(),
        one.uuid(),
        token.uuid()
    );
    let mut conn = PgConnection::connect_with(&test.superuser()).await.expect("connects");
    sqlx::raw_sql("set session_replication_role = replica")
        .execute(&mut conn)
        .await
        .expect("superuser");
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&mut conn)
        .await
        .expect("filled");
    let targets = [
        Target::from(one),
        Target::from(token),
        Target::from(two),
        Target::from(TokenId::new()),
        Target::from(NodeId::new()),
        Target::new("project", "no id at all"),
        Target::new("token", format!("{one}")),
    ];
    for target in targets.clone() {
        let recorded = db.failure(&Actor::system("test"), "x.y", target, Code::Forbidden).await;
        recorded.expect("recorded");
    }
    let of = async |project| {
        let filter = ProjectAuditFilter::default();
        let page = audit::list_of_project(&db, project, &filter, &app.cursors)
            .await
            .expect("lists");
        let mut seen: Vec<String> = page.items.into_iter().map(|row| row.target_id).collect();
        seen.sort();
        seen
    };
    let mut expected = vec![one.to_string(), token.to_string()];
    expected.sort();
    assert_eq!(
        (of(one).await, of(two).await),
        (expected.clone(), vec![two.to_string()])
    );
    // As before there was such a column: the migration finds the same, and no seal covers it.
    audit::seal_all(&db).await.expect("seals");
    sqlx::raw_sql("update audit set project_id = null")
        .execute(&mut conn)
        .await
        .expect("superuser");
    assert!(of(one).await.is_empty());
    let migration = base::db::migrations::MIGRATIONS
        .iter()
        .find(|one| one.version == 35)
        .expect("it is there");
    sqlx::raw_sql(AssertSqlSafe(migration.sql))
        .execute(&mut conn)
        .await
        .expect("again");
    assert_eq!((of(one).await, of(two).await), (expected, vec![two.to_string()]));
    assert_eq!(verdict(&db, None).await.broken, None);
    let lie = format!(
        "insert into audit (id, at, actor_kind, actor_id, action, target_kind, target_id, outcome, correlation_id, project_id)
         values (gen_random_uuid(), now(), 'user', 'x', 'x.y', 'node', 'n', 'ok', gen_random_uuid(), '{}')",
        one.uuid()
    );
    let refused = sqlx::raw_sql(AssertSqlSafe(lie)).execute(db.bookkeeping()).await;
    assert!(refused.is_err(), "what is about a node is no project's");
}
