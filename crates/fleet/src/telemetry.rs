//! What guests say about themselves, passed on by their nodes' agents. Shown beside the slot, and read by nothing else. A
//! node can speak for allocations that it has, or had a moment ago, and for no others.

use base::http::Answer;
use base::tx::Actor;
use model::api::GuestTelemetry;
use model::signal::Code;
use model::telemetry::{GuestNumbers, MAX_SAMPLES, TelemetryRequest};
use model::time::Timestamp;
use sqlx::PgPool;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::Fleet;
use crate::identity::NodeCaller;
use crate::metrics::ALARMS;

/// Nobody is shown them any more; some days leave time to look into something.
pub(crate) const KEEP_S: i64 = 7 * 86_400;
const FORGET_AT_ONCE: i64 = 1000;

pub async fn land(fleet: &Fleet, caller: &NodeCaller, actor: &Actor, request: TelemetryRequest) -> Answer<()> {
    if request.samples.len() > MAX_SAMPLES {
        return Err(Code::TelemetryLimited.into());
    }
    let pool = fleet.app.db.bookkeeping();
    let named: Vec<Uuid> = request.samples.iter().map(|one| one.allocation_id.uuid()).collect();
    let foreign: bool = sqlx::query_scalar(
        "select exists (select from unnest($1::uuid[]) as named (id)
                        where not exists (select from lease where allocation_id = named.id and node_id = $2))",
    )
    .bind(&named)
    .bind(caller.node_id.uuid())
    .fetch_one(pool)
    .await?;
    if foreign {
        metrics::counter!(ALARMS, "code" => Code::TelemetryRefused.as_str()).increment(1);
        let db = &fleet.app.db;
        db.refusal(actor, "node.telemetry", caller.node_id, Code::TelemetryRefused)
            .await?;
        return Err(Code::TelemetryRefused.into());
    }
    let numbers = request.samples.into_iter().map(|one| one.numbers.checked().map(Json));
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    sqlx::query(
        "insert into guest_telemetry (allocation_id, node_id, at, numbers)
         select distinct on (told.id) told.id, $2, $3, told.numbers
         from unnest($1::uuid[], $4::jsonb[]) as told (id, numbers)
         where exists (select from lease where allocation_id = told.id and node_id = $2 and ended_at is null)
         on conflict (allocation_id) do update set node_id = $2, at = $3, numbers = excluded.numbers",
    )
    .bind(&named)
    .bind(caller.node_id.uuid())
    .bind(OffsetDateTime::from(fleet.app.clock.now()))
    .bind(numbers)
    .execute(pool)
    .await?;
    Ok(())
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct TelemetryRow {
    pub allocation_id: Uuid,
    pub at: OffsetDateTime,
    pub numbers: serde_json::Value,
}

pub async fn of_allocations(pool: &PgPool, allocations: &[Uuid]) -> sqlx::Result<Vec<TelemetryRow>> {
    sqlx::query_as("select allocation_id, at, numbers from guest_telemetry where allocation_id = any($1)")
        .bind(allocations)
        .fetch_all(pool)
        .await
}

/// Removes some of what guests said last before `before`, of those that are gone. One pass reads the table as a whole:
/// it is as long as the fleet is wide, and an index on a time that changes with every sample would cost more.
pub async fn forget(pool: &PgPool, before: Timestamp) -> sqlx::Result<u64> {
    let gone = sqlx::query(
        "delete from guest_telemetry where allocation_id in (
             select allocation_id from guest_telemetry g
             where at < $1 and not exists (select from lease where allocation_id = g.allocation_id and ended_at is null)
             limit $2 for update skip locked)",
    )
    .bind(OffsetDateTime::from(before))
    .bind(FORGET_AT_ONCE)
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}

/// None where another release wrote another shape.
pub(crate) fn view(row: &TelemetryRow) -> Option<GuestTelemetry> {
    let numbers: GuestNumbers = serde_json::from_value(row.numbers.clone()).ok()?;
    Some(GuestTelemetry {
        at: row.at.into(),
        numbers,
    })
}
