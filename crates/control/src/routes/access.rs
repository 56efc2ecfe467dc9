//! Tokens: who am I, and what opens this door.

use axum::Json;
use axum::extract::State;
use base::auth::{Principal, Scope, TokenRow, token_create, token_list, token_revoke};
use base::http::{Access, Answer, ApiError, Body, PageQuery, Params, Route, Routes, Search};
use base::tx::Actor;
use fleet::Fleet;
use http::StatusCode;
use model::api::{Page, TokenCreate, TokenCreated, TokenView, WhoAmI};
use model::id::TokenId;
use serde::Deserialize;

const ANYBODY: Access = Access::Scopes(&Scope::ALL);
const ADMIN: Access = Access::Scopes(&[Scope::Admin]);
const DAY_S: i64 = 86_400;

pub(super) fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::get("/v1/me", ANYBODY, me)
            .summary("Who this token speaks for")
            .answers::<WhoAmI>(),
        Route::get("/v1/tokens", ADMIN, list)
            .summary("List tokens")
            .searches::<PageQuery>()
            .answers::<Page<TokenView>>(),
        Route::post("/v1/tokens", ADMIN, create)
            .summary("Make a token; its secret is shown once")
            .takes::<TokenCreate>()
            .answers_with::<TokenCreated>(StatusCode::CREATED),
        Route::post("/v1/tokens/{id}/revoke", ADMIN, revoke)
            .summary("End a token now")
            .answers_nothing(),
    ])
}

async fn me(principal: Principal) -> Json<WhoAmI> {
    Json(WhoAmI {
        user_id: principal.user_id,
        user: principal.user_name.clone(),
        token_id: principal.token_id,
        scopes: principal.scopes().to_vec(),
        expires_at: principal.expires_at,
    })
}

async fn list(State(fleet): State<Fleet>, Search(query): Search<PageQuery>) -> Answer<Json<Page<TokenView>>> {
    let page = query.page("tokens", &fleet.app.cursors)?;
    let rows = token_list(&fleet.app.db, &page).await?;
    Ok(Json(page.answer(
        rows,
        "tokens",
        &fleet.app.cursors,
        |row| (row.created_at.into(), row.id),
        view,
    )))
}

fn view(row: TokenRow) -> TokenView {
    TokenView {
        id: row.id.into(),
        user_id: row.user_id.into(),
        name: row.name,
        scopes: row.scopes.iter().filter_map(|scope| scope.parse().ok()).collect(),
        created_at: row.created_at.into(),
        expires_at: row.expires_at.into(),
        last_used_at: row.last_used_at.map(Into::into),
        revoked_at: row.revoked_at.map(Into::into),
    }
}

async fn create(
    State(fleet): State<Fleet>,
    principal: Principal,
    Body(body): Body<TokenCreate>,
) -> Answer<(StatusCode, Json<TokenCreated>)> {
    let printable = (1..=64).contains(&body.name.chars().count()) && !body.name.chars().any(char::is_control);
    if !printable {
        return Err(ApiError::field("name", "1 to 64 printable characters"));
    }
    if !(1..=365).contains(&body.days) {
        return Err(ApiError::field("days", "must be between 1 and 365"));
    }
    let life_s = i64::from(body.days) * DAY_S;
    let made = token_create(
        &fleet.app.db,
        &principal.actor(),
        principal.user_id,
        &body.name,
        &body.scopes,
        life_s,
    )
    .await?;
    let token = TokenView {
        id: made.id,
        user_id: principal.user_id,
        name: body.name,
        scopes: body.scopes,
        created_at: fleet.app.clock.now(),
        expires_at: made.expires_at,
        last_used_at: None,
        revoked_at: None,
    };
    Ok((
        StatusCode::CREATED,
        Json(TokenCreated {
            token,
            secret: made.secret.reveal(),
        }),
    ))
}

#[derive(Deserialize)]
struct PathId {
    id: TokenId,
}

async fn revoke(State(fleet): State<Fleet>, Params(PathId { id }): Params<PathId>, actor: Actor) -> Answer<StatusCode> {
    token_revoke(&fleet.app.db, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
