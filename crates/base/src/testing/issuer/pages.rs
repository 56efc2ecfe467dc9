//! What is served: the provider's own documents, a page on which to choose who to be, and the token endpoint.

use std::sync::Arc;

use axum::extract::{RawQuery, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde_json::{Value, json};
use wire::form::{encode, only, read};

use super::Shared;

type Served = State<Arc<Shared>>;

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/.well-known/openid-configuration", get(configuration))
        .route("/jwks", get(keys))
        .route("/authorize", get(choose))
        .route("/authorize/as", get(approve))
        .route("/device/begin", post(begin_device))
        .route("/device", get(choose_for_device))
        .route("/device/as", get(approve_device))
        .route("/token", post(token))
        .layer(from_fn_with_state(shared.clone(), unless_broken))
        .with_state(shared)
}

async fn unless_broken(State(shared): Served, request: Request, next: Next) -> Response {
    shared.state().visits += 1;
    let _open = shared.door.read().await;
    if shared.state().broken {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    next.run(request).await
}

async fn configuration(State(shared): Served) -> Json<Value> {
    let at = |path: &str| format!("{}{path}", shared.url);
    Json(json!({
        "issuer": shared.url, "jwks_uri": at("/jwks"), "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"), "device_authorization_endpoint": at("/device/begin"),
        "code_challenge_methods_supported": ["S256"],
    }))
}

async fn keys(State(shared): Served) -> Json<Value> {
    let mut state = shared.state();
    state.key_reads += 1;
    let keys: Vec<Value> = state.keys.iter().map(super::SigningKey::jwk).collect();
    Json(json!({ "keys": keys }))
}

async fn choose(State(shared): Served, RawQuery(query): RawQuery) -> Html<String> {
    Html(shared.page("/authorize/as", &query.unwrap_or_default()))
}

async fn choose_for_device(State(shared): Served, RawQuery(query): RawQuery) -> Html<String> {
    Html(shared.page("/device/as", &query.unwrap_or_default()))
}

impl Shared {
    /// One link for each person. The question goes on as it came, and only escaped.
    fn page(&self, path: &str, query: &str) -> String {
        let question = query.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
        let people = self.state().people.clone();
        let links = people.iter().map(|person| {
            let name = encode(&person.name);
            format!("<li><a href=\"{path}?user={name}&amp;{question}\">{name}</a></li>")
        });
        let links: String = links.collect();
        format!(
            "<!doctype html><title>Sign in</title><h1>Who are you?</h1>\
             <p>Simulated: this provider of the development server asks for no password.</p><ul>{links}</ul>"
        )
    }
}

async fn approve(State(shared): Served, RawQuery(query): RawQuery) -> Response {
    match shared.approve(&read(&query.unwrap_or_default())) {
        Some(next) => Redirect::to(&next).into_response(),
        None => StatusCode::BAD_REQUEST.into_response(),
    }
}

async fn approve_device(State(shared): Served, RawQuery(query): RawQuery) -> Response {
    let form = read(&query.unwrap_or_default());
    match (only(&form, "user_code"), only(&form, "user")) {
        (Some(code), Some(person)) if shared.approve_device(code, person) => {
            Html("<!doctype html><title>Done</title><p>You can close this page.</p>").into_response()
        }
        _ => StatusCode::BAD_REQUEST.into_response(),
    }
}

async fn begin_device(State(shared): Served, body: String) -> Response {
    match shared.begin_device(&read(&body)) {
        Some(answer) => Json(answer).into_response(),
        None => refusal("invalid_request"),
    }
}

async fn token(State(shared): Served, body: String) -> Response {
    match shared.token(&read(&body)) {
        Ok(answer) => Json(answer).into_response(),
        Err(word) => refusal(word),
    }
}

fn refusal(word: &'static str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({ "error": word }))).into_response()
}
