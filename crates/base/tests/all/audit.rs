//! The audit chain against somebody who holds the database's superuser.

use base::audit::{self, AuditFilter, Head};
use base::testing::TestDb;
use base::{Actor, Clock, Db, Target};
use model::api::AuditVerdict;
use model::signal::Code;
use model::time::Timestamp;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

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
