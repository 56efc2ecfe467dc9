//! The catalogue as people see and change it: operators say what there is, finance what it costs.

use axum::Json;
use axum::extract::State;
use base::Change;
use base::auth::{Principal, Scope};
use base::http::{Access, Answer, ApiError, Body, IfMatch, PageQuery, Params, Route, Routes, Search};
use fleet::Fleet;
use http::StatusCode;
use model::api::{FreeCount, Page, SkuChange, SkuCreate, SkuKind, SkuPrice, SkuView};
use model::id::SkuId;
use model::signal::Code;
use model::value::FileName;
use serde::Deserialize;
use serde_json::json;

use super::image;
use super::store::{self, SkuRow};
use crate::seat::looks;

const SEES: Access = Access::Scopes(&Scope::ALL);
const OPERATOR: Access = Access::Scopes(&[Scope::Operator]);
const FINANCE: Access = Access::Scopes(&[Scope::Finance]);
/// Beyond it a number is not exact in JSON.
const PRICE_BELOW: u64 = 1 << 53;

pub fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::get("/v1/skus", SEES, list)
            .summary("What can be rented, with its price")
            .searches::<PageQuery>()
            .answers::<Page<SkuView>>(),
        Route::post("/v1/skus", OPERATOR, create)
            .summary("Put something into the catalogue")
            .takes::<SkuCreate>()
            .answers_with::<SkuView>(StatusCode::CREATED)
            .fails(&[Code::StateConflict]),
        Route::get("/v1/skus/{id}", SEES, show)
            .summary("Show a SKU")
            .answers::<SkuView>(),
        Route::patch("/v1/skus/{id}", OPERATOR, update)
            .summary("Take it out of sale, or put it back; give it other images")
            .takes::<SkuChange>()
            .answers::<SkuView>(),
        Route::post("/v1/skus/{id}/price", FINANCE, post_price)
            .summary("A new price for whoever comes from now on")
            .takes::<SkuPrice>()
            .answers::<SkuView>(),
    ])
}

/// What is not offered yet is seen by whoever runs the platform, and by whoever sets its price.
fn sees_hidden(principal: &Principal) -> bool {
    looks(principal) || principal.may(Scope::Finance)
}

#[derive(Deserialize)]
struct PathId {
    id: SkuId,
}

fn view(row: SkuRow) -> Answer<SkuView> {
    let unsigned = |n: i64| u64::try_from(n).map_err(ApiError::internal);
    Ok(SkuView {
        id: row.id.into(),
        kind: row.kind()?,
        images: row.images()?,
        free: FreeCount::of(row.free),
        price_micro_per_hour: unsigned(row.price_micro_per_hour)?,
        memory_mib: unsigned(row.memory_mib)?,
        nvme_gib: unsigned(row.nvme_gib)?,
        gpu_count: row.gpu_count.unsigned_abs(),
        slots: row.slots.unsigned_abs(),
        vcpu: row.vcpu.unsigned_abs(),
        name: row.name,
        gpu_model: row.gpu_model,
        fabric: row.fabric,
        currency: row.currency,
        visible: row.visible,
        version: row.version.into(),
        created_at: row.created_at.into(),
    })
}

async fn list(
    State(fleet): State<Fleet>,
    principal: Principal,
    Search(query): Search<PageQuery>,
) -> Answer<Json<Page<SkuView>>> {
    let page = query.page("skus", &fleet.app.cursors)?;
    let rows = store::list(fleet.app.db.read(), sees_hidden(&principal), &page).await?;
    let place = |row: &SkuRow| (row.created_at.into(), row.id);
    let list = page.answer(rows, "skus", &fleet.app.cursors, place, |row| row);
    let items = list.items.into_iter().map(view).collect::<Answer<_>>()?;
    Ok(Json(Page { items, next: list.next }))
}

async fn show(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
) -> Answer<Json<SkuView>> {
    let row = store::get(fleet.app.db.bookkeeping(), id).await?;
    // What is not offered is missing to those who rent.
    let row = row
        .filter(|row| row.visible || sees_hidden(&principal))
        .ok_or(Code::NotFound)?;
    view(row).map(Json)
}

async fn create(
    State(fleet): State<Fleet>,
    principal: Principal,
    Body(body): Body<SkuCreate>,
) -> Answer<(StatusCode, Json<SkuView>)> {
    check(&body)?;
    let id = SkuId::new();
    let mut change = fleet.app.db.change(&principal.actor(), "sku.create", id).await?;
    all_listed(&fleet, &mut change, &body.images).await?;
    store::create(&mut change, id, &body).await?;
    change.detail(json!(body));
    change.event("sku.created", id, json!({ "name": body.name }));
    change.commit().await?;
    let row = store::get(fleet.app.db.bookkeeping(), id)
        .await?
        .ok_or(Code::NotFound)?;
    Ok((StatusCode::CREATED, Json(view(row)?)))
}

fn check(wish: &SkuCreate) -> Answer<()> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    let head = wish
        .name
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if !head || wish.name.len() > 63 || !wish.name.bytes().all(plain) {
        return Err(ApiError::field(
            "name",
            "1 to 63 of a-z, 0-9, . and -, beginning with a letter or digit",
        ));
    }
    let printable = (1..=64).contains(&wish.gpu_model.len()) && !wish.gpu_model.chars().any(char::is_control);
    if !printable {
        return Err(ApiError::field("gpu_model", "1 to 64 printable characters"));
    }
    let slots = match wish.kind {
        SkuKind::Slice => 1..=16,
        SkuKind::Machine => 0..=0,
    };
    if !slots.contains(&wish.slots) {
        return Err(ApiError::field("slots", "1 to 16 for a slice, 0 for a machine"));
    }
    // Each slot is one GPU: what is promised beyond that would be charged and never given.
    if wish.kind == SkuKind::Slice && wish.gpu_count != wish.slots {
        return Err(ApiError::field("gpu_count", "as many as slots: each is one GPU"));
    }
    for (field, n, most) in [("gpu_count", wish.gpu_count, 64), ("vcpu", wish.vcpu, 4096)] {
        if n > most || n == 0 {
            return Err(ApiError::field(field, format!("1 to {most}")));
        }
    }
    if wish.memory_mib == 0 || wish.memory_mib > 1 << 30 || wish.nvme_gib > 1 << 30 {
        return Err(ApiError::field("memory_mib", "memory and disk must be possible"));
    }
    check_images(wish.kind, &wish.images)?;
    if wish.price_micro_per_hour >= PRICE_BELOW {
        return Err(ApiError::field("price_micro_per_hour", "below 2^53"));
    }
    let capitals = wish.currency.len() == 3 && wish.currency.bytes().all(|b| b.is_ascii_uppercase());
    if !capitals {
        return Err(ApiError::field("currency", "three capital letters"));
    }
    Ok(())
}

fn check_images(kind: SkuKind, images: &[FileName]) -> Answer<()> {
    if images.len() > 64 || (kind == SkuKind::Slice && images.is_empty()) {
        return Err(ApiError::field("images", "a slice boots from an image; 64 at most"));
    }
    Ok(())
}

async fn all_listed(fleet: &Fleet, change: &mut Change, images: &[FileName]) -> Answer<()> {
    for name in images {
        if image::listed(fleet, change.conn(), name).await?.is_none() {
            let what = format!("the signed catalogue does not list {name}");
            return Err(ApiError::field("images", what));
        }
    }
    Ok(())
}

/// For whoever comes from now on: what is rented keeps what was agreed.
async fn update(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    meant: IfMatch,
    Body(body): Body<SkuChange>,
) -> Answer<Json<SkuView>> {
    let mut change = fleet.app.db.change(&principal.actor(), "sku.update", id).await?;
    let present = store::lock_as_meant(&mut change, id, meant).await?;
    if let Some(images) = &body.images {
        check_images(present.kind()?, images)?;
        all_listed(&fleet, &mut change, images).await?;
    }
    if store::alter(&mut change, id, &present, &body).await? {
        change.event("sku.changed", id, json!(body));
    }
    change.detail(json!(body));
    change.commit().await?;
    let row = store::get(fleet.app.db.bookkeeping(), id)
        .await?
        .ok_or(Code::NotFound)?;
    view(row).map(Json)
}

async fn post_price(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    Body(body): Body<SkuPrice>,
) -> Answer<Json<SkuView>> {
    let micro = i64::try_from(body.price_micro_per_hour)
        .ok()
        .filter(|_| body.price_micro_per_hour < PRICE_BELOW)
        .ok_or_else(|| ApiError::field("price_micro_per_hour", "below 2^53"))?;
    let mut change = fleet.app.db.change(&principal.actor(), "sku.price", id).await?;
    store::reprice(&mut change, id, micro).await?;
    change.detail(json!(body));
    change.event("sku.priced", id, json!({ "price_micro_per_hour": micro }));
    change.commit().await?;
    let row = store::get(fleet.app.db.bookkeeping(), id)
        .await?
        .ok_or(Code::NotFound)?;
    view(row).map(Json)
}
