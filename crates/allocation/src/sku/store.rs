//! Rows of the catalogue. The price is the one of the SKU's present version; versions are never changed.

use base::Change;
use base::http::{Answer, ApiError, IfMatch, Page};
use fleet::machine;
use fleet::slot::lease::Wanted;
use model::api::{SkuChange, SkuCreate, SkuKind};
use model::id::SkuId;
use model::signal::Code;
use model::value::FileName;
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct SkuRow {
    pub id: Uuid,
    pub name: String,
    pub kind: String,
    pub gpu_model: String,
    pub gpu_count: i32,
    pub slots: i32,
    pub vcpu: i32,
    pub memory_mib: i64,
    pub nvme_gib: i64,
    pub fabric: bool,
    pub images: serde_json::Value,
    pub visible: bool,
    pub version: i32,
    pub created_at: OffsetDateTime,
    pub price_micro_per_hour: i64,
    pub currency: String,
    /// How many could be rented now, counted on five nodes at most.
    pub free: i64,
}

impl SkuRow {
    pub fn kind(&self) -> Answer<SkuKind> {
        self.kind.parse().map_err(ApiError::internal)
    }

    /// What each of its slots has to have.
    pub fn wanted(&self) -> Wanted<'_> {
        let slots = i64::from(self.slots.max(1));
        let of_each = |all: i64| all / slots + i64::from(all % slots > 0);
        Wanted {
            count: self.slots.unsigned_abs(),
            gpu_model: &self.gpu_model,
            vcpu: of_each(self.vcpu.into()),
            memory_mib: of_each(self.memory_mib),
            nvme_gib: of_each(self.nvme_gib),
            fabric: self.fabric,
        }
    }

    pub fn machine(&self) -> machine::Wanted<'_> {
        machine::Wanted {
            gpu_model: &self.gpu_model,
            gpu_count: self.gpu_count,
        }
    }

    pub fn images(&self) -> Answer<Vec<FileName>> {
        serde_json::from_value(self.images.clone()).map_err(ApiError::internal)
    }
}

// How many of it could be rented now. People are told `5+` at most, so no more than five nodes are counted.
macro_rules! select_sku {
    ($rest:literal) => {
        select_sku!(
            "case when s.kind = 'slice' then
                 (select coalesce(sum(fit / s.slots), 0)::bigint from (
                      select fit from node_room r join node n on n.id = r.node_id cross join lateral (
                          select count(*) as fit from slot f where f.node_id = r.node_id and f.state = 'free' and f.fault is null
                            and slot_fits(f, s.gpu_model, ceil(s.vcpu::numeric / s.slots)::bigint,
                                          ceil(s.memory_mib::numeric / s.slots)::bigint,
                                          ceil(s.nvme_gib::numeric / s.slots)::bigint, s.fabric)) fitting
                      where r.gpu_model = lower(s.gpu_model) and r.free > 0 and r.free >= s.slots and n.state = 'ready'
                        and n.mode = 'slice' and fit >= s.slots limit 5) as nodes)
             else (select count(*) from (
                 select from node n where n.mode = 'machine' and n.state = 'ready' and machine_fits(n, s.gpu_model, s.gpu_count)
                 limit 5) as nodes) end",
            $rest
        )
    };
    ($free:literal, $rest:literal) => {
        concat!(
            "select s.*, v.price_micro_per_hour, v.currency, ",
            $free,
            " as free from sku s join sku_version v on v.sku_id = s.id and v.version = s.version ",
            $rest
        )
    };
}

pub async fn get(pool: &PgPool, id: SkuId) -> sqlx::Result<Option<SkuRow>> {
    sqlx::query_as(select_sku!("where s.id = $1"))
        .bind(id.uuid())
        .fetch_optional(pool)
        .await
}

/// Of those that can be rented. How much is free is not counted: whoever rents finds out, and nobody else asks here.
pub async fn by_name(from: impl PgExecutor<'_>, name: &str) -> sqlx::Result<Option<SkuRow>> {
    sqlx::query_as(select_sku!("0::bigint", "where s.name = $1 and s.visible"))
        .bind(name)
        .fetch_optional(from)
        .await
}

pub async fn list(pool: &PgPool, all: bool, page: &Page) -> sqlx::Result<Vec<SkuRow>> {
    let (at, id) = page.after_parts();
    sqlx::query_as(select_sku!(
        "where ($1 or s.visible) and ($2::timestamptz is null or (s.created_at, s.id) < ($2, $3))
         order by s.created_at desc, s.id desc limit $4"
    ))
    .bind(all)
    .bind(at)
    .bind(id)
    .bind(page.fetch())
    .fetch_all(pool)
    .await
}

pub async fn create(change: &mut Change, id: SkuId, wish: &SkuCreate) -> Answer<()> {
    let big = |field: &str, n: u64| i64::try_from(n).map_err(|_| ApiError::field(field, "too large"));
    let small = |field: &str, n: u32| i32::try_from(n).map_err(|_| ApiError::field(field, "too large"));
    sqlx::query(
        "insert into sku (id, name, kind, gpu_model, gpu_count, slots, vcpu, memory_mib, nvme_gib, fabric, images, created_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(id.uuid())
    .bind(&wish.name)
    .bind(wish.kind.as_str())
    .bind(&wish.gpu_model)
    .bind(small("gpu_count", wish.gpu_count)?)
    .bind(small("slots", wish.slots)?)
    .bind(small("vcpu", wish.vcpu)?)
    .bind(big("memory_mib", wish.memory_mib)?)
    .bind(big("nvme_gib", wish.nvme_gib)?)
    .bind(wish.fabric)
    .bind(sqlx::types::Json(&wish.images))
    .bind(OffsetDateTime::from(change.at()))
    .execute(change.conn())
    .await
    .map_err(taken)?;
    price(
        change,
        id,
        1,
        big("price_micro_per_hour", wish.price_micro_per_hour)?,
        &wish.currency,
    )
    .await
}

fn taken(error: sqlx::Error) -> ApiError {
    let taken = error
        .as_database_error()
        .is_some_and(sqlx::error::DatabaseError::is_unique_violation);
    if taken {
        ApiError::new(Code::StateConflict)
            .message("a SKU of this name exists already")
            .hint("take another name, or `gpuaas sku price` for another price")
    } else {
        error.into()
    }
}

async fn price(change: &mut Change, id: SkuId, version: i32, micro: i64, currency: &str) -> Answer<()> {
    let by = change.actor().reference();
    sqlx::query(
        "insert into sku_version (sku_id, version, price_micro_per_hour, currency, created_at, created_by)
         values ($1, $2, $3, $4, $5, $6)",
    )
    .bind(id.uuid())
    .bind(version)
    .bind(micro)
    .bind(currency)
    .bind(OffsetDateTime::from(change.at()))
    .bind(by)
    .execute(change.conn())
    .await?;
    Ok(())
}

/// What it is and costs now, under its lock.
#[derive(Debug, sqlx::FromRow)]
pub struct Present {
    kind: String,
    version: i32,
    price_micro_per_hour: i64,
    currency: String,
    visible: bool,
    images: serde_json::Value,
}

impl Present {
    pub fn kind(&self) -> Answer<SkuKind> {
        self.kind.parse().map_err(ApiError::internal)
    }
}

async fn lock(change: &mut Change, id: SkuId) -> Answer<Present> {
    let row: Option<Present> = sqlx::query_as(
        "select s.kind, s.version, v.price_micro_per_hour, v.currency, s.visible, s.images
         from sku s join sku_version v on v.sku_id = s.id and v.version = s.version where s.id = $1 for update of s",
    )
    .bind(id.uuid())
    .fetch_optional(change.conn())
    .await?;
    row.ok_or_else(|| Code::NotFound.into())
}

/// The same, if it is in the version that was meant.
pub async fn lock_as_meant(change: &mut Change, id: SkuId, meant: IfMatch) -> Answer<Present> {
    let present = lock(change, id).await?;
    meant.holds(present.version.into())?;
    Ok(present)
}

/// A new price is a new version. The same price again is nothing new.
pub async fn reprice(change: &mut Change, id: SkuId, micro: i64) -> Answer<()> {
    let present = lock(change, id).await?;
    if present.price_micro_per_hour == micro {
        return Ok(());
    }
    price(change, id, present.version + 1, micro, &present.currency).await?;
    sqlx::query("update sku set version = version + 1 where id = $1")
        .bind(id.uuid())
        .execute(change.conn())
        .await?;
    Ok(())
}

/// Whatever else changes is a new version, too, at the price of the one before. False if nothing is new.
pub async fn alter(change: &mut Change, id: SkuId, present: &Present, wish: &SkuChange) -> Answer<bool> {
    let visible = wish.visible.unwrap_or(present.visible);
    let images = match &wish.images {
        Some(images) => serde_json::json!(images),
        None => present.images.clone(),
    };
    if visible == present.visible && images == present.images {
        return Ok(false);
    }
    let (version, micro) = (present.version + 1, present.price_micro_per_hour);
    price(change, id, version, micro, &present.currency).await?;
    sqlx::query("update sku set visible = $2, images = $3, version = $4 where id = $1")
        .bind(id.uuid())
        .bind(visible)
        .bind(images)
        .bind(version)
        .execute(change.conn())
        .await?;
    Ok(true)
}
