//! Tokens: who am I, and what opens this door. Everybody has their own; an administrator sees and ends all. A token is
//! never stronger than what was shown to make it.

use axum::Json;
use axum::extract::State;
use base::auth::{
    Confined, Credential, NewToken, Principal, Scope, TokenRow, Whose, Wish, token_list, token_make, token_revoke,
};
use base::http::{Access, Answer, ApiError, Body, Params, Route, Routes, Search};
use fleet::Fleet;
use http::StatusCode;
use model::api::{Page, TokenCreate, TokenCreated, TokenView, Via, WhoAmI};
use model::id::TokenId;
use schemars::JsonSchema;
use serde::Deserialize;

const ANYBODY: Access = Access::Scopes(&Scope::ALL);
const DAY_S: i64 = 86_400;

pub(super) fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::get("/v1/me", ANYBODY, me)
            .summary("Who this token speaks for")
            .answers::<WhoAmI>(),
        Route::get("/v1/tokens", ANYBODY, list)
            .summary("Your tokens; an administrator sees everybody's")
            .searches::<ListQuery>()
            .answers::<Page<TokenView>>(),
        Route::post("/v1/tokens", ANYBODY, create)
            .summary("Make a token; its secret is shown once")
            .told_once("the token's secret is kept nowhere")
            .takes::<TokenCreate>()
            .answers_with::<TokenCreated>(StatusCode::CREATED),
        Route::post("/v1/tokens/{id}/revoke", ANYBODY, revoke)
            .summary("End a token now; it stays listed")
            .answers_nothing(),
    ])
}

async fn me(principal: Principal) -> Json<WhoAmI> {
    let (token_id, via) = match principal.credential {
        Credential::Token(id) => (id, Via::Token),
        Credential::Session(id) => (TokenId::from(id.uuid()), Via::Session),
        Credential::Provider => (TokenId::from(principal.user_id.uuid()), Via::Provider),
    };
    Json(WhoAmI {
        user_id: principal.user_id,
        user: principal.user_name.clone(),
        token_id,
        via,
        scopes: principal.scopes().to_vec(),
        expires_at: principal.expires_at,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    after: Option<String>,
    limit: Option<u32>,
    /// Only yours, also for an administrator.
    mine: Option<bool>,
}

fn reach(principal: &Principal) -> Whose {
    match principal.may(Scope::Admin) {
        true => Whose::Everybodys,
        false => Whose::Of(principal.user_id),
    }
}

async fn list(
    State(fleet): State<Fleet>,
    principal: Principal,
    Search(query): Search<ListQuery>,
) -> Answer<Json<Page<TokenView>>> {
    let page = base::http::page(query.after.as_deref(), query.limit, "tokens", &fleet.app.cursors)?;
    let whose = match query.mine {
        Some(true) => Whose::Of(principal.user_id),
        _ => reach(&principal),
    };
    let rows = token_list(&fleet.app.db, whose, &page).await?;
    Ok(Json(page.answer(
        rows,
        "tokens",
        &fleet.app.cursors,
        |row| (row.created_at.into(), row.id),
        view,
    )))
}

pub(super) fn view(row: TokenRow) -> TokenView {
    TokenView {
        id: row.id.into(),
        user_id: row.user_id.into(),
        name: row.name,
        scopes: row.scopes.iter().filter_map(|scope| scope.parse().ok()).collect(),
        created_at: row.created_at.into(),
        expires_at: row.expires_at.into(),
        last_used_at: row.last_used_at.map(Into::into),
        revoked_at: row.revoked_at.map(Into::into),
        project_id: row.project_id.map(Into::into),
        project_role: row.project_role.and_then(|role| role.parse().ok()),
    }
}

async fn create(
    State(fleet): State<Fleet>,
    principal: Principal,
    Body(body): Body<TokenCreate>,
) -> Answer<(StatusCode, Json<TokenCreated>)> {
    if !body.scopes.iter().all(|scope| principal.may(*scope)) {
        let refused = ApiError::forbidden("token.create", principal.user_id);
        return Err(refused.message("a token can do no more than whoever makes it"));
    }
    make(&fleet, &principal, &body.name, &body.scopes, body.days, None).await
}

/// Makes a token of the caller's and shows it.
pub(super) async fn make(
    fleet: &Fleet,
    principal: &Principal,
    name: &str,
    scopes: &[Scope],
    days: u32,
    confined: Option<Confined>,
) -> Answer<(StatusCode, Json<TokenCreated>)> {
    let printable = (1..=64).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    if !printable {
        return Err(ApiError::field("name", "1 to 64 printable characters"));
    }
    if !(1..=365).contains(&days) {
        return Err(ApiError::field("days", "must be between 1 and 365"));
    }
    let wish = Wish {
        user: principal.user_id,
        name,
        scopes,
        life_s: i64::from(days) * DAY_S,
        confined,
    };
    let made = token_make(&fleet.app.db, &principal.actor(), &wish).await?;
    Ok((StatusCode::CREATED, Json(shown(fleet, &wish, &made))))
}

fn shown(fleet: &Fleet, wish: &Wish<'_>, made: &NewToken) -> TokenCreated {
    TokenCreated {
        token: TokenView {
            id: made.id,
            user_id: wish.user,
            name: wish.name.to_owned(),
            scopes: wish.scopes.to_vec(),
            created_at: fleet.app.clock.now(),
            expires_at: made.expires_at,
            last_used_at: None,
            revoked_at: None,
            project_id: wish.confined.map(|confined| confined.project),
            project_role: wish.confined.map(|confined| confined.role),
        },
        secret: made.secret.reveal(),
    }
}

#[derive(Deserialize)]
struct PathId {
    id: TokenId,
}

async fn revoke(
    State(fleet): State<Fleet>,
    principal: Principal,
    Params(PathId { id }): Params<PathId>,
) -> Answer<StatusCode> {
    token_revoke(&fleet.app.db, &principal.actor(), reach(&principal), id).await?;
    Ok(StatusCode::NO_CONTENT)
}
