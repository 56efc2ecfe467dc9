//! Tokens of a project: for its machines, not for a person's hands. They work there and nowhere else, with a role that is
//! never above that of whoever made them, now or later.

use allocation::seat::{Seat, TENANT};
use axum::Json;
use axum::extract::State;
use base::auth::{Confined, Principal, Scope, Whose, token_list, token_revoke};
use base::http::{Answer, ApiError, Body, PageQuery, Params, Route, Routes, Search};
use fleet::Fleet;
use http::StatusCode;
use model::api::{Page, ProjectTokenCreate, TokenCreated, TokenView};
use model::id::{ProjectId, TokenId};
use model::signal::Code;
use model::state::ProjectRole;
use serde::Deserialize;

use super::access::{make, view};

pub(super) fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::get("/v1/projects/{id}/tokens", TENANT, list)
            .summary("The tokens of a project")
            .searches::<PageQuery>()
            .answers::<Page<TokenView>>(),
        Route::post("/v1/projects/{id}/tokens", TENANT, create)
            .summary("Make a token that works in this project only; its secret is shown once")
            .told_once("the token's secret is kept nowhere")
            .takes::<ProjectTokenCreate>()
            .answers_with::<TokenCreated>(StatusCode::CREATED),
        Route::post("/v1/projects/{id}/tokens/{token_id}/revoke", TENANT, revoke)
            .summary("End a token of the project now")
            .answers_nothing(),
    ])
}

#[derive(Deserialize)]
struct PathId {
    id: ProjectId,
}

/// Administrators of the project and its owners.
async fn seat(fleet: &Fleet, principal: &Principal, project: ProjectId) -> Answer<ProjectRole> {
    let seat = Seat::take(fleet.app.db.read(), principal, project).await?;
    seat.needs(ProjectRole::Admin)?;
    seat.role.ok_or_else(|| Code::Forbidden.into())
}

async fn list(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    Search(query): Search<PageQuery>,
) -> Answer<Json<Page<TokenView>>> {
    seat(&fleet, &principal, id).await?;
    let page = query.page("project_tokens", &fleet.app.cursors)?;
    let rows = token_list(&fleet.app.db, Whose::OfProject(id), &page).await?;
    Ok(Json(page.answer(
        rows,
        "project_tokens",
        &fleet.app.cursors,
        |row| (row.created_at.into(), row.id),
        view,
    )))
}

async fn create(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
    Body(body): Body<ProjectTokenCreate>,
) -> Answer<(StatusCode, Json<TokenCreated>)> {
    let mine = seat(&fleet, &principal, id).await?;
    if body.role as u8 > mine as u8 {
        return Err(ApiError::forbidden("token.create", id).message("a token's role is not above its maker's"));
    }
    let confined = Confined {
        project: id,
        role: body.role,
    };
    make(
        &fleet,
        &principal,
        &body.name,
        &[Scope::Project],
        body.days,
        Some(confined),
    )
    .await
}

#[derive(Deserialize)]
struct PathIds {
    id: ProjectId,
    token_id: TokenId,
}

async fn revoke(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathIds { id, token_id }): Params<PathIds>,
) -> Answer<StatusCode> {
    seat(&fleet, &principal, id).await?;
    token_revoke(&fleet.app.db, &principal.actor(), Whose::OfProject(id), token_id).await?;
    Ok(StatusCode::NO_CONTENT)
}
