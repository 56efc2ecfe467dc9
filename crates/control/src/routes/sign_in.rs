//! `/auth`: a browser signs in with the identity provider and leaves again. `/v1/auth` tells other programs, which know
//! nothing yet, where they can sign in.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base::App;
use base::auth::oidc::{Attempt, Oidc, ensure_person};
use base::auth::session::{cookie, cookie_name, session_begin, session_end, set_cookie};
use base::auth::{Credential, Principal, Scope};
use base::http::{Access, Answer, ApiError, Route, Routes, Search, Sender, correlation_id};
use base::{Actor, ActorKind};
use fleet::Fleet;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use model::api::SignInView;
use model::id::UserId;
use model::signal::Code;
use schemars::JsonSchema;
use serde::Deserialize;

/// How long a person may take at the provider's pages.
const PATIENCE_S: u64 = 300;
const FAILS: &[Code] = &[Code::SignInNotConfigured, Code::IdentityUnavailable, Code::RateLimited];
const BACK: &[Code] = &[
    Code::SignInRefused,
    Code::UserDisabled,
    Code::TokenInvalid,
    Code::IdentityUnavailable,
];

pub(super) fn routes() -> Routes<Fleet> {
    Routes::new([
        Route::get("/v1/auth", Access::Public, view)
            .summary("Where to sign in")
            .answers::<SignInView>(),
        Route::get("/auth/login", Access::Public, login)
            .summary("Send a browser to the identity provider")
            .counts_as_sign_in()
            .searches::<LoginQuery>()
            .answers_elsewhere()
            .fails(FAILS),
        Route::get("/auth/callback", Access::Public, callback)
            .summary("Where the identity provider sends it back to")
            .counts_as_sign_in()
            .searches::<CallbackQuery>()
            .answers_elsewhere()
            .fails(BACK),
        Route::post("/auth/logout", Access::Scopes(&Scope::ALL), logout)
            .summary("End the browser's session now")
            .answers_nothing(),
    ])
}

async fn view(State(fleet): State<Fleet>) -> Json<SignInView> {
    let config = &fleet.app.config;
    let cli = config.oidc_cli_client_id.as_ref().or(config.oidc_client_id.as_ref());
    let by_provider = config.oidc_issuer.is_some();
    Json(SignInView {
        issuer: config.oidc_issuer.clone(),
        browser: by_provider && config.oidc_client_id.is_some(),
        client_id: cli.filter(|_| by_provider && config.oidc_audience.is_some()).cloned(),
        audience: config.oidc_audience.clone().filter(|_| by_provider),
        scopes: config.oidc_scopes.clone(),
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LoginQuery {
    /// A path of this server to go to afterwards.
    next: Option<String>,
}

async fn login(State(fleet): State<Fleet>, Search(query): Search<LoginQuery>) -> Answer<Response> {
    let attempt = Attempt::new(query.next.as_deref());
    let page = provider(&fleet.app)?.begin(&attempt).await?;
    let kept = set_cookie(&fleet.app.config, "sign_in", &attempt.cookie(), Some(PATIENCE_S));
    Ok(elsewhere(&page, [kept, None]))
}

/// Providers add what they like, so unknown fields are no error here.
#[derive(Deserialize, JsonSchema)]
struct CallbackQuery {
    code: Option<String>,
    state: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

async fn callback(
    State(fleet): State<Fleet>,
    Search(query): Search<CallbackQuery>,
    Sender(address): Sender,
    headers: HeaderMap,
) -> Answer<Response> {
    let app = &fleet.app;
    let provider = provider(app)?;
    let refused = |why: &str| ApiError::new(Code::SignInRefused).message(why);
    let kept = cookie(&headers, &cookie_name(&app.config, "sign_in"));
    let attempt = kept.zip(query.state.as_deref());
    let attempt = attempt.and_then(|(kept, state)| Attempt::of_cookie(kept, state));
    let attempt = attempt.ok_or_else(|| refused("This browser has not begun this sign-in, or too long ago."))?;
    // A provider that names itself must be the one that was asked (RFC 9207).
    if query.iss.as_deref().is_some_and(|iss| iss != provider.issuer()) {
        return Err(refused("Another provider has answered than was asked."));
    }
    let code = match (query.error, query.code) {
        (None, Some(code)) => code,
        _ => return Err(refused("The identity provider has declined.")),
    };
    let identity = provider.finish(&attempt, &code).await?;
    let person = ensure_person(&app.db, provider, &identity, address).await?;
    let user = UserId::from(person.user_id);
    let actor = Actor::new(ActorKind::User, user, correlation_id()).at(address);
    let secret = session_begin(app, &actor, user).await?;
    let life_s = app.config.session_life_s;
    let session = set_cookie(&app.config, "session", &secret.reveal(), Some(life_s));
    let over = set_cookie(&app.config, "sign_in", "", Some(0));
    Ok(elsewhere(&attempt.next, [session, over]))
}

async fn logout(State(fleet): State<Fleet>, principal: Principal) -> Answer<Response> {
    let app = &fleet.app;
    let Credential::Session(id) = principal.credential else {
        return Err(ApiError::new(Code::StateConflict)
            .message("only a browser has a session to leave")
            .hint("a token ends by `gpuaas token remove`"));
    };
    session_end(&app.db, &principal.actor(), id).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(over) = set_cookie(&app.config, "session", "", Some(0)) {
        response.headers_mut().insert(header::SET_COOKIE, over);
    }
    Ok(response)
}

fn provider(app: &App) -> Result<&Oidc, ApiError> {
    app.oidc.as_ref().ok_or_else(|| Code::SignInNotConfigured.into())
}

/// 303, with cookies, and nothing of it kept by anybody on the way.
fn elsewhere(page: &str, cookies: [Option<HeaderValue>; 2]) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    match HeaderValue::from_str(page) {
        Ok(page) => headers.insert(header::LOCATION, page),
        Err(_) => return ApiError::new(Code::Internal).into_response(),
    };
    for cookie in cookies.into_iter().flatten() {
        headers.append(header::SET_COOKIE, cookie);
    }
    response
}
