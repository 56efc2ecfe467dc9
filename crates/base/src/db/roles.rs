//! The database's own users. Created once per cluster by its superuser; for a database of the operator's, the same
//! statements are printed for the operator to run, because we never hold that password.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Connection};

use super::OWNER;

/// What the superuser of a cluster has to run once.
pub const ROLES_SQL: &str = include_str!("roles.sql");

/// Makes sure that the roles and the database `name`, owned by `gpuaas_owner`, exist.
pub async fn ensure_database(superuser: &PgConnectOptions, name: &str) -> sqlx::Result<()> {
    let mut conn = PgConnection::connect_with(superuser).await?;
    sqlx::raw_sql(ROLES_SQL).execute(&mut conn).await?;
    let exists: bool = sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
        .bind(name)
        .fetch_one(&mut conn)
        .await?;
    if !exists {
        create_database(&mut conn, name, None).await?;
    }
    conn.close().await
}

/// `create database` takes no parameters, so the name is checked instead.
pub(crate) async fn create_database(conn: &mut PgConnection, name: &str, template: Option<&str>) -> sqlx::Result<()> {
    let template = template
        .map(|from| format!(" template {}", plain(from)))
        .unwrap_or_default();
    let sql = format!("create database {} owner {OWNER}{template}", plain(name));
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await?;
    Ok(())
}

/// A name that needs no quoting. Names are ours; one that is not plain is a bug, never a query.
pub(crate) fn plain(name: &str) -> &str {
    let ok = name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    assert!(
        ok && !name.is_empty() && name.len() <= 63,
        "not a plain database name: {name:?}"
    );
    name
}
