//! People on the platform: who they are, which platform roles they hold, whether they may come in.

use axum::Json;
use axum::extract::State;
use base::auth::{Principal, Scope, UserRow, user_change_role, user_disable, user_enable, user_list};
use base::http::{Access, Answer, ApiError, Body, PageQuery, Params, Route, Routes, Search};
use fleet::Fleet;
use http::StatusCode;
use model::api::{Page, UserRole, UserView};
use model::id::UserId;
use model::signal::Code;
use serde::Deserialize;

const ADMIN: Access = Access::Scopes(&[Scope::Admin]);

pub(super) fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::get("/v1/users", ADMIN, list)
            .summary("Everybody who ever came in")
            .searches::<PageQuery>()
            .answers::<Page<UserView>>(),
        Route::post("/v1/users/{id}/grant", ADMIN, grant)
            .summary("Grant a platform role")
            .takes::<UserRole>()
            .answers_nothing(),
        Route::post("/v1/users/{id}/revoke", ADMIN, revoke)
            .summary("Take a platform role away; its tokens lose it with the next request")
            .takes::<UserRole>()
            .answers_nothing(),
        Route::post("/v1/users/{id}/disable", ADMIN, disable)
            .summary("Keep somebody out: tokens and sessions open nothing from the next request on")
            .answers_nothing(),
        Route::post("/v1/users/{id}/enable", ADMIN, enable)
            .summary("Let somebody in again")
            .answers_nothing(),
    ])
}

async fn list(State(fleet): State<Fleet>, Search(query): Search<PageQuery>) -> Answer<Json<Page<UserView>>> {
    let page = query.page("users", &fleet.app.cursors)?;
    let rows = user_list(&fleet.app.db, &page).await?;
    Ok(Json(page.answer(
        rows,
        "users",
        &fleet.app.cursors,
        |row| (row.created_at.into(), row.id),
        view,
    )))
}

fn view(row: UserRow) -> UserView {
    UserView {
        id: row.id.into(),
        name: row.name,
        platform_roles: row.platform_roles.iter().filter_map(|role| role.parse().ok()).collect(),
        email: row.email,
        issuer: row.issuer,
        created_at: row.created_at.into(),
        disabled_at: row.disabled_at.map(Into::into),
        version: row.version,
    }
}

#[derive(Deserialize)]
struct PathId {
    id: UserId,
}

async fn grant(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    Body(body): Body<UserRole>,
) -> Answer<StatusCode> {
    change(&fleet, &principal, id, body.role, true).await
}

async fn revoke(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    Body(body): Body<UserRole>,
) -> Answer<StatusCode> {
    change(&fleet, &principal, id, body.role, false).await
}

async fn change(fleet: &Fleet, principal: &Principal, id: UserId, role: Scope, granted: bool) -> Answer<StatusCode> {
    if role == Scope::Admin && !granted && id == principal.user_id {
        return Err(ApiError::new(Code::StateConflict).message("nobody shuts themselves out"));
    }
    let by_claim = fleet.app.config.oidc_role_claim.is_some();
    user_change_role(&fleet.app.db, &principal.actor(), id, role, granted, by_claim).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn disable(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
) -> Answer<StatusCode> {
    if id == principal.user_id {
        return Err(ApiError::new(Code::StateConflict).message("nobody shuts themselves out"));
    }
    user_disable(&fleet.app.db, &principal.actor(), id).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn enable(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
) -> Answer<StatusCode> {
    user_enable(&fleet.app.db, &principal.actor(), id).await?;
    Ok(StatusCode::NO_CONTENT)
}
