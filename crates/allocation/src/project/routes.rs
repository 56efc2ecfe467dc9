//! What people can do with projects. Operators and administrators make them and say how much they may have; who is in
//! them is for their own administrators to say.

use axum::Json;
use axum::extract::State;
use base::auth::Principal;
use base::http::{Answer, ApiError, Body, IfMatch, PageQuery, Params, Route, Routes, Search};
use fleet::Fleet;
use http::StatusCode;
use model::api::{MemberAdd, MemberView, Page, ProjectCreate, ProjectView, QuotaChange, QuotaView};
use model::id::{ProjectId, UserId};
use model::signal::Code;
use model::state::ProjectRole;
use serde::Deserialize;
use serde_json::json;

use super::quota;
use super::store::{self, MemberRow, ProjectRow};
use crate::seat::{OPERATOR, SEES, Seat, TENANT, looks};

pub fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::get("/v1/projects", SEES, list)
            .summary("List projects: one's own, or all for whoever runs the platform")
            .searches::<PageQuery>()
            .answers::<Page<ProjectView>>(),
        Route::post("/v1/projects", OPERATOR, create)
            .summary("Make a project with its first owner")
            .takes::<ProjectCreate>()
            .answers_with::<ProjectView>(StatusCode::CREATED)
            .fails(&[Code::StateConflict]),
        Route::get("/v1/projects/{id}", SEES, show)
            .summary("Show a project")
            .answers::<ProjectView>(),
        Route::delete("/v1/projects/{id}", TENANT, end)
            .summary("End a project that has nothing any more: nobody is in it then, and its name is free")
            .answers_nothing()
            .fails(&[Code::Forbidden, Code::StateConflict]),
        Route::get("/v1/projects/{id}/members", SEES, members)
            .summary("Who is in it")
            .searches::<PageQuery>()
            .answers::<Page<MemberView>>(),
        Route::post("/v1/projects/{id}/members", TENANT, add)
            .summary("Let somebody in who has signed in before, or change their role")
            .takes::<MemberAdd>()
            .answers::<MemberView>()
            .fails(&[Code::Forbidden, Code::LastOwner, Code::NotFound]),
        Route::delete("/v1/projects/{id}/members/{user_id}", TENANT, remove)
            .summary("Take somebody out")
            .answers_nothing()
            .fails(&[Code::Forbidden, Code::LastOwner]),
        Route::get("/v1/projects/{id}/quota", SEES, show_quota)
            .summary("What it may have at once, and has")
            .answers::<QuotaView>(),
        Route::post("/v1/projects/{id}/quota", OPERATOR, set_quota)
            .summary("Change what it may have at once")
            .takes::<QuotaChange>()
            .answers::<QuotaView>(),
    ])
}

#[derive(Deserialize)]
struct PathId {
    id: ProjectId,
}

#[derive(Deserialize)]
struct MemberPath {
    id: ProjectId,
    user_id: UserId,
}

fn view(row: ProjectRow) -> ProjectView {
    ProjectView {
        id: row.id.into(),
        name: row.name,
        role: row.role.and_then(|role| role.parse().ok()),
        created_at: row.created_at.into(),
        deleted_at: row.deleted_at.map(Into::into),
        version: row.version,
    }
}

async fn list(
    State(fleet): State<Fleet>,
    principal: Principal,
    Search(query): Search<PageQuery>,
) -> Answer<Json<Page<ProjectView>>> {
    let page = query.page("projects", &fleet.app.cursors)?;
    if let Some(confined) = principal.confined {
        let items = vec![shown(&fleet, &principal, confined.project).await?];
        return Ok(Json(Page { items, next: None }));
    }
    let rows = store::list(fleet.app.db.read(), principal.user_id, looks(&principal), &page).await?;
    let place = |row: &ProjectRow| (row.created_at.into(), row.id);
    Ok(Json(page.answer(rows, "projects", &fleet.app.cursors, place, view)))
}

async fn shown(fleet: &Fleet, principal: &Principal, id: ProjectId) -> Answer<ProjectView> {
    Seat::take(fleet.app.db.bookkeeping(), principal, id).await?;
    let row = store::get(fleet.app.db.bookkeeping(), id, principal.user_id).await?;
    row.map(view).ok_or_else(|| Code::NotFound.into())
}

async fn create(
    State(fleet): State<Fleet>,
    principal: Principal,
    Body(body): Body<ProjectCreate>,
) -> Answer<(StatusCode, Json<ProjectView>)> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !(1..=63).contains(&body.name.len()) || !body.name.bytes().all(plain) || body.name.starts_with('-') {
        return Err(ApiError::field(
            "name",
            "1 to 63 of a-z, 0-9 and -, not beginning with -",
        ));
    }
    let id = ProjectId::new();
    let mut change = fleet.app.db.change(&principal.actor(), "project.create", id).await?;
    let owner = match &body.owner {
        None => principal.user_id,
        Some(name) => store::existing_user(change.conn(), name)
            .await?
            .ok_or_else(|| ApiError::field("owner", "there is no such user"))?,
    };
    store::create(&mut change, id, &body.name, owner).await?;
    change.detail(json!({ "name": body.name, "owner": owner }));
    change.event("project.created", id, json!({ "name": body.name }));
    change.commit().await?;
    Ok((StatusCode::CREATED, Json(shown(&fleet, &principal, id).await?)))
}

async fn show(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
) -> Answer<Json<ProjectView>> {
    shown(&fleet, &principal, id).await.map(Json)
}

/// For good, and by its owners only. Whoever creates an allocation locks the quota first, too: one of the two comes second
/// and finds what the other has left.
async fn end(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    meant: IfMatch,
) -> Answer<StatusCode> {
    let mut change = fleet.app.db.change(&principal.actor(), "project.delete", id).await?;
    let quota = quota::lock(&mut change, id).await?;
    Seat::take(change.conn(), &principal, id)
        .await?
        .needs(ProjectRole::Owner)?;
    let row = store::get(change.conn(), id, principal.user_id).await?;
    let row = row.ok_or(Code::NotFound)?;
    meant.holds(row.version)?;
    if quota.allocations_used > 0 || quota.slots_used > 0 {
        return Err(ApiError::new(Code::StateConflict)
            .message("the project still has allocations that have not ended")
            .hint(format!(
                "`gpuaas allocation list --project {}` shows them; release each of them",
                row.name
            ))
            .detail("allocations_used", quota.allocations_used)
            .detail("slots_used", quota.slots_used));
    }
    store::end(&mut change, id).await?;
    change.detail(json!({ "name": row.name }));
    change.event("project.deleted", id, json!({ "name": row.name }));
    change.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

fn member(row: MemberRow) -> Answer<MemberView> {
    Ok(MemberView {
        user_id: row.user_id.into(),
        user: row.user_name,
        role: row.role.parse().map_err(ApiError::internal)?,
        since: row.since.into(),
        version: row.version,
    })
}

async fn members(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    Search(query): Search<PageQuery>,
) -> Answer<Json<Page<MemberView>>> {
    let page = query.page("members", &fleet.app.cursors)?;
    Seat::take(fleet.app.db.read(), &principal, id).await?;
    let rows = store::members(fleet.app.db.bookkeeping(), id, &page).await?;
    let place = |row: &MemberRow| (row.since.into(), row.user_id);
    let list = page.answer(rows, "members", &fleet.app.cursors, place, |row| row);
    let items = list.items.into_iter().map(member).collect::<Answer<_>>()?;
    Ok(Json(Page { items, next: list.next }))
}

async fn add(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    Body(body): Body<MemberAdd>,
) -> Answer<Json<MemberView>> {
    // Before the change: whoever was answered before and may no more is not answered again.
    Seat::take(fleet.app.db.read(), &principal, id)
        .await?
        .needs(ProjectRole::Admin)?;
    let mut change = fleet
        .app
        .db
        .change(&principal.actor(), "project.member_add", id)
        .await?;
    let seat = locked(&mut change, &principal, id).await?;
    seat.needs(ProjectRole::Admin)?;
    let user = store::existing_user(change.conn(), &body.user).await?.ok_or_else(|| {
        ApiError::new(Code::NotFound)
            .message("there is no such user")
            .detail("field", "user")
    })?;
    guard_owners(&mut change, &seat, id, user, Some(body.role)).await?;
    store::seat(&mut change, id, user, body.role).await?;
    change.detail(json!({ "user": user, "role": body.role }));
    change.event("project.member", id, json!({ "user_id": user, "role": body.role }));
    let row = store::member(change.conn(), id, user).await?;
    change.commit().await?;
    member(row).map(Json)
}

/// The caller's seat, under the project's lock; who has none locks nothing and waits for nobody.
async fn locked(change: &mut base::Change, principal: &Principal, id: ProjectId) -> Answer<Seat> {
    Seat::take(change.conn(), principal, id).await?;
    quota::lock(change, id).await?;
    Seat::take(change.conn(), principal, id).await
}

/// Owners are made and unmade by owners only.
async fn guard_owners(
    change: &mut base::Change,
    seat: &Seat,
    id: ProjectId,
    user: UserId,
    to: Option<ProjectRole>,
) -> Answer<()> {
    let row = store::get(change.conn(), id, user).await?;
    let is_owner = row.and_then(|row| row.role).as_deref() == Some(ProjectRole::Owner.as_str());
    if is_owner || to == Some(ProjectRole::Owner) {
        seat.needs(ProjectRole::Owner)?;
    }
    Ok(())
}

async fn remove(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(MemberPath { id, user_id }): Params<MemberPath>,
    meant: IfMatch,
) -> Answer<StatusCode> {
    let mut change = fleet
        .app
        .db
        .change(&principal.actor(), "project.member_remove", id)
        .await?;
    let seat = locked(&mut change, &principal, id).await?;
    // Whoever wants to leave may.
    if user_id != principal.user_id {
        seat.needs(ProjectRole::Admin)?;
    }
    guard_owners(&mut change, &seat, id, user_id, None).await?;
    if !store::unseat(&mut change, id, user_id, meant).await? {
        return Err(Code::NotFound.into());
    }
    change.detail(json!({ "user": user_id }));
    change.event("project.member", id, json!({ "user_id": user_id, "role": null }));
    change.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn show_quota(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
) -> Answer<Json<QuotaView>> {
    Seat::take(fleet.app.db.read(), &principal, id).await?;
    let row = quota::get(fleet.app.db.bookkeeping(), id)
        .await?
        .ok_or(Code::NotFound)?;
    Ok(Json(row.view()))
}

async fn set_quota(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    Body(body): Body<QuotaChange>,
) -> Answer<Json<QuotaView>> {
    let mut change = fleet.app.db.change(&principal.actor(), "quota.set", id).await?;
    quota::set(&mut change, id, &body).await?;
    change.detail(json!(body));
    change.event("quota.changed", id, json!(body));
    change.commit().await?;
    let row = quota::get(fleet.app.db.bookkeeping(), id)
        .await?
        .ok_or(Code::NotFound)?;
    Ok(Json(row.view()))
}
