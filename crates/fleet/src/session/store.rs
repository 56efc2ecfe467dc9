//! Rows of sessions: the latest of each node.

use model::id::{NodeId, SessionId};
use model::time::Timestamp;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

/// What is kept of a node's past. A session that is forgotten is a superseded one like any other.
const KEPT_MOST: i64 = 100;

/// A session that was told that another one counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) first: Timestamp,
    /// When the one that counts was last heard.
    pub(super) other_heard: Option<Timestamp>,
}

pub(super) async fn is_known(conn: &mut PgConnection, node: NodeId, session: SessionId) -> sqlx::Result<bool> {
    sqlx::query_scalar("select exists (select 1 from node_session where node_id = $1 and id = $2)")
        .bind(node.uuid())
        .bind(session.uuid())
        .fetch_one(conn)
        .await
}

pub(super) async fn opened(
    conn: &mut PgConnection,
    node: NodeId,
    session: SessionId,
    at: Timestamp,
) -> sqlx::Result<()> {
    sqlx::query("insert into node_session (node_id, id, opened_at) values ($1, $2, $3) on conflict do nothing")
        .bind(node.uuid())
        .bind(session.uuid())
        .bind(OffsetDateTime::from(at))
        .execute(&mut *conn)
        .await?;
    sqlx::query(
        "delete from node_session where node_id = $1 and opened_at <
             (select opened_at from node_session where node_id = $1 order by opened_at desc offset $2 limit 1)",
    )
    .bind(node.uuid())
    .bind(KEPT_MOST)
    .execute(conn)
    .await?;
    Ok(())
}

/// Remembers the first time that this session is told; none for one that never was, or that is long forgotten.
pub(super) async fn told(
    pool: &PgPool,
    node: NodeId,
    session: SessionId,
    now: Timestamp,
) -> sqlx::Result<Option<Told>> {
    let row: Option<(OffsetDateTime, Option<OffsetDateTime>)> = sqlx::query_as(
        "update node_session set told_at = coalesce(told_at, $3) from node
         where node_session.node_id = $1 and node_session.id = $2 and node.id = $1
         returning told_at, session_heard_at",
    )
    .bind(node.uuid())
    .bind(session.uuid())
    .bind(OffsetDateTime::from(now))
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|(first, heard)| Told {
        first: first.into(),
        other_heard: heard.map(Into::into),
    }))
}
