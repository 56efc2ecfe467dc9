//! What a step begins with: the allocation, its latest tasks and what it holds, in one question. A workflow looks before
//! each act, so every further way to the database would be on the way of every tenant who waits.

use base::http::{Answer, ApiError};
use fleet::machine;
use model::api::SkuKind;
use model::id::AllocationId;
use model::signal::Code;
use model::task::TaskType;
use sqlx::PgPool;
use uuid::Uuid;

use super::ground::{Holds, Seen, TaskSeen};
use crate::allocation::store::{op, work_of};

#[derive(sqlx::FromRow)]
struct Row {
    kind: String,
    state: String,
    cancelled: bool,
    waits: bool,
    made_by: Option<Uuid>,
    made_state: Option<String>,
    made_code: Option<String>,
    made_detail: Option<String>,
    taken_by: Option<Uuid>,
    taken_state: Option<String>,
    taken_code: Option<String>,
    taken_detail: Option<String>,
    /// None: it has no slots. False: a node was given a task about one of them.
    only_promised: Option<bool>,
}

/// Beside it, whether the allocation says that it waits.
pub(super) async fn look(db: &PgPool, id: AllocationId) -> Answer<(Seen, bool)> {
    let [makes, takes_away] = operations(id);
    // By issue first: no index has that order, so that no plan walks all tasks from the youngest on.
    let row: Option<Row> = sqlx::query_as(
        "select a.kind, a.state, a.cancel_asked_at is not null as cancelled, a.waiting_since is not null as waits,
                made.id as made_by, made.state as made_state, made.code as made_code, made.detail as made_detail,
                taken.id as taken_by, taken.state as taken_state, taken.code as taken_code, taken.detail as taken_detail,
                (select bool_and(s.state = 'reserved') from lease l join slot s on s.id = l.slot_id
                 where l.allocation_id = a.id and l.ended_at is null) as only_promised
         from allocation a
         left join lateral (select t.id, t.state, t.code, t.detail from task t where t.op_id = any($2)
                            order by t.issue desc, t.created_at desc limit 1) made on true
         left join lateral (select t.id, t.state, t.code, t.detail from task t where t.op_id = any($3)
                            order by t.issue desc, t.created_at desc limit 1) taken on true
         where a.id = $1",
    )
    .bind(id.uuid())
    .bind(makes)
    .bind(takes_away)
    .fetch_optional(db)
    .await?;
    let row = row.ok_or(Code::NotFound)?;
    let holds = match row.kind.parse().map_err(ApiError::internal)? {
        SkuKind::Slice => match row.only_promised {
            None => Holds::Nothing,
            Some(true) => Holds::Promised,
            Some(false) => Holds::Given,
        },
        SkuKind::Machine => match machine::holds(db, id).await? {
            machine::Holds::Nothing => Holds::Nothing,
            machine::Holds::Promised => Holds::Promised,
            machine::Holds::Given => Holds::Given,
        },
    };
    let seen = Seen {
        state: row.state.parse().map_err(ApiError::internal)?,
        cancelled: row.cancelled,
        provision: task(row.made_by, row.made_state, row.made_code, row.made_detail)?,
        release: task(row.taken_by, row.taken_state, row.taken_code, row.taken_detail)?,
        holds,
    };
    Ok((seen, row.waits))
}

/// What makes it, and what takes it away, whichever kind it is: it has tasks of one kind only.
fn operations(id: AllocationId) -> [Vec<Uuid>; 2] {
    let kinds = [SkuKind::Slice, SkuKind::Machine].map(work_of);
    let of = |which: fn([TaskType; 2]) -> TaskType| kinds.map(|work| op(id, which(work)).uuid()).to_vec();
    [of(|[makes, _]| makes), of(|[_, takes_away]| takes_away)]
}

fn task(
    id: Option<Uuid>,
    state: Option<String>,
    code: Option<String>,
    detail: Option<String>,
) -> Answer<Option<TaskSeen>> {
    let Some((id, state)) = id.zip(state) else {
        return Ok(None);
    };
    Ok(Some(TaskSeen {
        id: id.into(),
        state: state.parse().map_err(ApiError::internal)?,
        code: code.and_then(|code| code.parse().ok()),
        detail,
    }))
}
