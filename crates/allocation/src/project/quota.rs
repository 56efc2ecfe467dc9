//! Quotas. The row is locked by whoever adds or ends an allocation, before anything else, so that the figures in a refusal
//! are true; that they are never passed is the database's own promise.

use base::Change;
use base::http::{Answer, ApiError};
use model::api::{QuotaChange, QuotaLimit, QuotaView};
use model::id::ProjectId;
use model::signal::Code;
use serde_json::Value;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::sku::store::SkuRow;

/// Of the day that spending is counted by.
const HOURS: i64 = 24;
/// A thousand millions of a currency a day; what is more is no limit.
const SPEND_MOST: u64 = 1_000_000_000_000_000;

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct QuotaRow {
    pub project_id: Uuid,
    pub slots: i32,
    pub slots_per_sku: Option<i32>,
    pub allocations: i32,
    pub terminals: i32,
    pub max_ttl_hours: Option<i32>,
    pub spend_per_day_micro: Option<i64>,
    pub slots_used: i32,
    pub allocations_used: i32,
    pub version: i64,
}

impl QuotaRow {
    pub fn view(&self) -> QuotaView {
        QuotaView {
            project_id: self.project_id.into(),
            slots: self.slots.unsigned_abs(),
            slots_used: self.slots_used.unsigned_abs(),
            slots_per_sku: self.slots_per_sku.map(i32::unsigned_abs),
            allocations: self.allocations.unsigned_abs(),
            allocations_used: self.allocations_used.unsigned_abs(),
            terminals: self.terminals.unsigned_abs(),
            max_ttl_hours: self.max_ttl_hours.map(i32::unsigned_abs),
            spend_per_day_micro: self.spend_per_day_micro,
            version: self.version,
        }
    }

    /// Is there room for one of this SKU?
    pub async fn admits(&self, conn: &mut PgConnection, sku: &SkuRow) -> Answer<()> {
        let slots = i64::from(sku.slots);
        room("allocations", self.allocations.into(), self.allocations_used.into(), 1)?;
        room("slots", self.slots.into(), self.slots_used.into(), slots)?;
        if let Some(most) = self.slots_per_sku {
            let used = of_sku(conn, self.project_id.into(), sku.id).await?;
            room("slots_per_sku", most.into(), used, slots)?;
        }
        if let Some(most) = self.spend_per_day_micro {
            let used = day_of(conn, self.project_id.into(), &sku.currency).await?;
            let wanted = sku.price_micro_per_hour.saturating_mul(HOURS);
            if used.saturating_add(wanted) > most {
                let [most_is, used_is, wanted_is] = [most, used, wanted].map(|micro| amount(micro, &sku.currency));
                let message = format!(
                    "this project may spend {most_is} a day; what it has costs {used_is} a day, and this costs {wanted_is}"
                );
                return Err(exceeded(message, "spend_per_day_micro", most, used, wanted));
            }
        }
        Ok(())
    }

    /// May something last this long?
    pub fn admits_ttl(&self, ttl_s: Option<u64>) -> Answer<()> {
        let Some(most) = self.max_ttl_hours.map(i64::from) else {
            return Ok(());
        };
        let wanted = ttl_s.map(|ttl| ttl.div_ceil(3600));
        if wanted.is_some_and(|hours| i64::try_from(hours).is_ok_and(|hours| hours <= most)) {
            return Ok(());
        }
        let hours = if most == 1 { "hour" } else { "hours" };
        let message =
            format!("allocations of this project need an end of at most {most} {hours}, for example `--ttl {most}h`");
        Err(exceeded(message, "max_ttl_hours", most, 0, wanted))
    }
}

/// For people: `48.00 USD`, and no more than cents.
fn amount(micro: i64, currency: &str) -> String {
    let cents = micro / 10_000;
    format!("{}.{:02} {currency}", cents / 100, cents % 100)
}

fn room(quota: &str, limit: i64, used: i64, requested: i64) -> Answer<()> {
    if used.saturating_add(requested) <= limit {
        return Ok(());
    }
    let message = format!("the quota `{quota}` is {limit}, {used} are in use and {requested} were asked for");
    Err(exceeded(message, quota, limit, used, requested))
}

/// The same details whatever is exceeded. An end that was not asked for is null and no figure.
fn exceeded(message: String, quota: &str, limit: i64, used: i64, requested: impl Into<Value>) -> ApiError {
    ApiError::new(Code::QuotaExceeded)
        .message(message)
        .detail("quota", quota)
        .detail("limit", limit)
        .detail("used", used)
        .detail("requested", requested)
}

pub async fn get(pool: &PgPool, project: ProjectId) -> sqlx::Result<Option<QuotaRow>> {
    sqlx::query_as("select * from quota where project_id = $1")
        .bind(project.uuid())
        .fetch_optional(pool)
        .await
}

/// First of all locks: projects, then allocations, then nodes. Not against those who only refer to it: PostgreSQL looks
/// whether a project is there when an allocation is written twice in one change, and that comes after its own lock.
pub async fn lock(change: &mut Change, project: ProjectId) -> Answer<QuotaRow> {
    let row: Option<QuotaRow> = sqlx::query_as("select * from quota where project_id = $1 for no key update")
        .bind(project.uuid())
        .fetch_optional(change.conn())
        .await?;
    row.ok_or_else(|| Code::NotFound.into())
}

/// Slots of this SKU that the project has now.
async fn of_sku(conn: &mut PgConnection, project: ProjectId, sku: Uuid) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "select coalesce(sum(slots), 0)::bigint from allocation where project_id = $1 and sku_id = $2 and ended_at is null",
    )
    .bind(project.uuid())
    .bind(sku)
    .fetch_one(conn)
    .await
}

/// What all that the project has now costs in a day, at the prices that it was rented at.
async fn day_of(conn: &mut PgConnection, project: ProjectId, currency: &str) -> sqlx::Result<i64> {
    let per_hour: i64 = sqlx::query_scalar(
        "select least(coalesce(sum(rate_micro_per_hour), 0), 1e17)::bigint from allocation
         where project_id = $1 and currency = $2 and ended_at is null",
    )
    .bind(project.uuid())
    .bind(currency)
    .fetch_one(conn)
    .await?;
    Ok(per_hour.saturating_mul(HOURS))
}

/// What is not said stays; what is reset is again as in a new project. Less than is in use is fine: nothing is taken away, and nothing is added.
pub async fn set(change: &mut Change, project: ProjectId, wish: &QuotaChange) -> Answer<()> {
    let int = |field: &str, value: Option<u32>| -> Answer<Option<i32>> {
        let most = 1_000_000;
        match value {
            Some(n) if n > most => Err(ApiError::field(field, format!("at most {most}"))),
            other => Ok(other.and_then(|n| i32::try_from(n).ok())),
        }
    };
    if wish.max_ttl_hours == Some(0) {
        let refused = ApiError::field("max_ttl_hours", "1 or more");
        return Err(refused.hint("leave it out to keep what there is, or name it in `reset` to take it away; for nothing at all set `allocations` to 0"));
    }
    if wish.spend_per_day_micro.is_some_and(|micro| micro > SPEND_MOST) {
        return Err(ApiError::field("spend_per_day_micro", format!("at most {SPEND_MOST}")));
    }
    for (limit, is_set) in [
        (QuotaLimit::Slots, wish.slots.is_some()),
        (QuotaLimit::SlotsPerSku, wish.slots_per_sku.is_some()),
        (QuotaLimit::Allocations, wish.allocations.is_some()),
        (QuotaLimit::Terminals, wish.terminals.is_some()),
        (QuotaLimit::MaxTtlHours, wish.max_ttl_hours.is_some()),
        (QuotaLimit::SpendPerDayMicro, wish.spend_per_day_micro.is_some()),
    ] {
        if is_set && wish.reset.contains(&limit) {
            return Err(ApiError::field(
                "reset",
                format!("`{}` is set in the same wish", limit.as_str()),
            ));
        }
    }
    let reset: Vec<&str> = wish.reset.iter().map(|limit| limit.as_str()).collect();
    let done = sqlx::query(
        "update quota set slots = coalesce($2, case when 'slots' = any($7) then 8 end, slots),
             slots_per_sku = case when 'slots_per_sku' = any($7) then null else coalesce($3, slots_per_sku) end,
             allocations = coalesce($4, case when 'allocations' = any($7) then 8 end, allocations),
             terminals = coalesce($5, case when 'terminals' = any($7) then 10 end, terminals),
             max_ttl_hours = case when 'max_ttl_hours' = any($7) then null else coalesce($6, max_ttl_hours) end,
             spend_per_day_micro = case when 'spend_per_day_micro' = any($7) then null
                                        else coalesce($8, spend_per_day_micro) end,
             version = version + 1
         where project_id = $1 and exists (select from project where id = $1 and deleted_at is null)",
    )
    .bind(project.uuid())
    .bind(int("slots", wish.slots)?)
    .bind(int("slots_per_sku", wish.slots_per_sku)?)
    .bind(int("allocations", wish.allocations)?)
    .bind(int("terminals", wish.terminals)?)
    .bind(int("max_ttl_hours", wish.max_ttl_hours)?)
    .bind(reset)
    .bind(wish.spend_per_day_micro.and_then(|micro| i64::try_from(micro).ok()))
    .execute(change.conn())
    .await?;
    if done.rows_affected() == 0 {
        return Err(Code::NotFound.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_end_is_asked_for_in_plain_words() {
        let quota = QuotaRow {
            project_id: Uuid::nil(),
            slots: 1,
            slots_per_sku: None,
            allocations: 1,
            terminals: 1,
            max_ttl_hours: Some(2),
            spend_per_day_micro: None,
            slots_used: 0,
            allocations_used: 0,
            version: 1,
        };
        assert!(quota.admits_ttl(Some(7200)).is_ok());
        for (ttl_s, requested) in [
            (None, Value::Null),
            (Some(7201), 3.into()),
            (Some(u64::MAX), u64::MAX.div_ceil(3600).into()),
        ] {
            let refused = quota.admits_ttl(ttl_s).expect_err("longer than it may be");
            assert_eq!(refused.code, Code::QuotaExceeded);
            assert!(refused.message.contains("at most 2 hours"), "{}", refused.message);
            let details = json!({ "quota": "max_ttl_hours", "limit": 2, "used": 0, "requested": requested });
            assert_eq!(Value::from(refused.details), details);
        }
        let endless = QuotaRow {
            max_ttl_hours: None,
            ..quota
        };
        assert!(endless.admits_ttl(None).is_ok());
    }
}
