//! What every abuse test looks at: the answer, the audit row behind it, and the rows that must not have moved.

use base::http::CORRELATION_HEADER;
use dev::town::Town;
use model::api::{AuditRow, Page};
use model::node_api::ErrorBody;
use model::signal::Code;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use wire::http::Response;

/// The refusal in an answer: its code with the status that belongs to it, a sentence, and one correlation id.
#[track_caller]
pub(crate) fn refused(answer: &Response, code: Code) -> ErrorBody {
    let error = answer.error().unwrap_or_else(|| panic!("not refused: {answer:?}"));
    assert_eq!(error.code, code, "{error:?}");
    assert_eq!(answer.status.as_u16(), code.status(), "{error:?}");
    assert!(error.message.len() > 10, "a sentence, not {:?}", error.message);
    assert!(error.hint.is_some(), "{error:?}");
    let header = answer.headers.get(CORRELATION_HEADER).expect("a correlation id");
    assert_eq!(header.to_str().ok(), Some(error.correlation_id.as_str()));
    error
}

/// The one audit row of this refusal.
pub(crate) async fn audited(town: &Town, error: &ErrorBody) -> AuditRow {
    let path = format!("/v1/audit?outcome=refused&correlation_id={}", error.correlation_id);
    let mut page: Page<AuditRow> = town.api().get(&path).await.expect("the audit is read");
    assert_eq!(page.items.len(), 1, "one row for {error:?}: {:?}", page.items);
    let row = page.items.remove(0);
    assert_eq!(row.code.as_deref(), Some(error.code.as_str()), "{row:?}");
    row
}

/// Statements as whoever owns the database server would run them.
pub(crate) async fn sql(town: &Town, statements: &str) {
    let mut conn = connect(town).await;
    let text = AssertSqlSafe(statements.to_owned());
    sqlx::raw_sql(text)
        .execute(&mut conn)
        .await
        .unwrap_or_else(|error| panic!("{statements}: {error}"));
    conn.close().await.expect("closes");
}

pub(crate) async fn connect(town: &Town) -> PgConnection {
    PgConnection::connect_with(&town.db.superuser())
        .await
        .expect("the cluster's own account")
}

/// Every row of these tables, without the columns that being heard moves: they are written together, some time later.
pub(crate) async fn snapshot(town: &Town, tables: &[&str]) -> Vec<String> {
    let mut conn = connect(town).await;
    let mut rows = Vec::new();
    for table in tables {
        let query = format!(
            "select '{table} ' || (to_jsonb(t) - '{{last_seen_at,session_heard_at,manifest_version,condition_at,first_used_at,last_used_at}}'::text[])::text
             from {table} t order by 1"
        );
        let found: Vec<String> = sqlx::query_scalar(AssertSqlSafe(query))
            .fetch_all(&mut conn)
            .await
            .expect("a table of ours");
        rows.extend(found);
    }
    conn.close().await.expect("closes");
    rows
}
