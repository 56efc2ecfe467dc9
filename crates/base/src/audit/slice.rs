//! The audit in slices. It only grows, so a statement over all of it fails one day for taking too long; a slice costs
//! the same however much there is.

use sqlx::postgres::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::AuditRow;

/// Where a row stands in the order of time. A slice begins behind it.
pub(super) type Place = (OffsetDateTime, Uuid);

/// Before everything.
pub(super) const START: Place = (OffsetDateTime::UNIX_EPOCH, Uuid::nil());

/// The length of a slice stands in the texts, because the planner must know it.
macro_rules! slice {
    () => {
        " from audit where (at, id) > ($1, $2) order by at, id limit 5000"
    };
}

/// Rows of a slice without a seal. A question for each row and no join: a join is planned for what the tables are
/// believed to be, and then reads all seals.
macro_rules! unsealed {
    ($wanted:literal, $rest:literal) => {
        concat!(
            "select ",
            $wanted,
            " from (select *",
            slice!(),
            ") a where (select s.pos from audit_seal s where s.audit_id = a.id) is null",
            $rest
        )
    };
}

/// The last row of a slice, if more rows may follow.
pub const EDGE: &str = concat!("select at, id from (select at, id", slice!(), ") a offset 4999");
pub const UNSEALED: &str = unsealed!(
    "id, at, actor_kind, actor_id, address, action, target_kind, target_id, outcome, code, correlation_id, details_text",
    " order by at, id limit $3"
);
pub const COUNT: &str = unsealed!("count(*), min(at)", "");

/// Where the next slice begins. To be asked last: if rows have come in between meanwhile, it is before the end of what
/// was looked at, and never behind it.
pub(super) async fn edge(conn: &mut PgConnection, from: Place) -> sqlx::Result<Option<Place>> {
    sqlx::query_as(EDGE)
        .bind(from.0)
        .bind(from.1)
        .fetch_optional(conn)
        .await
}

/// The oldest rows without a seal in the slice behind `from`.
pub(super) async fn unsealed(conn: &mut PgConnection, from: Place, limit: i64) -> sqlx::Result<Vec<AuditRow>> {
    sqlx::query_as(UNSEALED)
        .bind(from.0)
        .bind(from.1)
        .bind(limit)
        .fetch_all(conn)
        .await
}

/// How many rows have no seal, and when the oldest of them was written, of all there are.
pub(super) async fn count(conn: &mut PgConnection) -> sqlx::Result<(i64, Option<OffsetDateTime>)> {
    let (mut all, mut oldest) = (0, None);
    let mut from = START;
    loop {
        let (some, first): (i64, Option<OffsetDateTime>) = sqlx::query_as(COUNT)
            .bind(from.0)
            .bind(from.1)
            .fetch_one(&mut *conn)
            .await?;
        all += some;
        oldest = oldest.or(first);
        match edge(&mut *conn, from).await? {
            Some(place) => from = place,
            None => return Ok((all, oldest)),
        }
    }
}
