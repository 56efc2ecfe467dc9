//! A request under an Idempotency-Key, seen from the gate. Its handler runs in a task of its own: whoever hangs up in the
//! middle asks again and finds the answer.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use model::signal::Code;
use tracing::Instrument;

use super::error::ApiError;
use super::route::{KeyUse, RouteInfo};
use super::shell::in_correlation;
use crate::auth::Principal;
use crate::db::Db;
use crate::idempotency::{self, Decided, Name, Once, REPLAYED};

/// The key of this request, if it has one and the gate sees to it.
pub(super) fn asked(route: &RouteInfo, request: &Request) -> Result<Option<Arc<Once>>, ApiError> {
    match route.key {
        KeyUse::Optional | KeyUse::ToldOnce(_) => {}
        KeyUse::None | KeyUse::Required => return Ok(None),
    }
    let Some(principal) = request.extensions().get::<Principal>() else {
        return Ok(None);
    };
    let Some(key) = idempotency::given(request.headers())? else {
        return Ok(None);
    };
    // The tokens of a project have keys of their own: whose they were made by does not matter.
    let project = principal.confined.map(|confined| confined.project.to_string());
    let place = format!("{} {} {}", route.method, route.path, project.unwrap_or_default());
    let name = Name::new(principal.user_id, place.trim_end().to_owned(), key);
    let about = request
        .uri()
        .path_and_query()
        .map(ToString::to_string)
        .unwrap_or_default();
    Ok(Some(Once::new(name, about)))
}

pub(super) async fn run(once: Arc<Once>, db: Db, route: &RouteInfo, request: Request, next: Next) -> Response {
    let told_once = matches!(route.key, KeyUse::ToldOnce(_));
    let deadline = route.deadline;
    let work = async move {
        let answered = tokio::time::timeout(deadline, once.scope(next.run(request)));
        let response = tokio::select! {
            biased;
            decided = once.decided() => return again(decided),
            response = answered => response.unwrap_or_else(|_| ApiError::new(Code::DeadlineExceeded).into_response()),
        };
        keep(&once, &db, response, told_once).await
    };
    let done = tokio::spawn(in_correlation(work).in_current_span());
    match done.await {
        Ok(response) => response,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => ApiError::new(Code::Internal).into_response(),
        },
    }
}

fn again(decided: Decided) -> Response {
    let (status, body) = match decided {
        Decided::Replay(status, body) => (status, body),
        Decided::Refused(code) => return ApiError::new(code).into_response(),
    };
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    match status {
        StatusCode::NO_CONTENT => headers.remove(header::CONTENT_TYPE),
        _ => headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
    };
    response
}

/// Only what was done is kept: whoever was refused, or asked for what was so already, may ask again under the same key.
async fn keep(once: &Once, db: &Db, response: Response, told_once: bool) -> Response {
    if !once.is_kept() {
        return response;
    }
    if !response.status().is_success() {
        // It was done, and its answer came to nothing: the next one is told that at once.
        put(once, db, StatusCode::OK, None).await;
        return response;
    }
    let (head, body) = response.into_parts();
    // Whole in memory already: a handler made it from one object.
    let Ok(bytes) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
        return ApiError::new(Code::Internal).into_response();
    };
    let text = std::str::from_utf8(&bytes).ok().filter(|_| !told_once);
    put(once, db, head.status, text).await;
    Response::from_parts(head, Body::from(bytes))
}

async fn put(once: &Once, db: &Db, status: StatusCode, text: Option<&str>) {
    if let Err(error) = once.keep(db, status, text).await {
        tracing::warn!(%error, "an answer is not kept for whoever asks again under its key");
    }
}
