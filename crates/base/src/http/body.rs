//! What comes in: a JSON body, path parameters, a query string. Each is bounded before it is parsed, and each refusal
//! names the field. Types that derive `Deserialize` with `deny_unknown_fields` refuse what they do not know.

use std::time::Duration;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use bytes::Bytes;
use http::header;
use http::request::Parts;
use http_body_util::BodyExt;
use model::json::{MAX_DEPTH, nesting_within};
use model::signal::Code;
use serde::de::DeserializeOwned;

use super::error::ApiError;
use super::locate;
use crate::idempotency::Once;

/// The most a body may weigh unless its route says otherwise.
pub(super) const BODY_LIMIT: usize = 256 * 1024;

/// How long it may take to arrive, where no gate says otherwise.
const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// How much of a body that is too large is read and thrown away before its sender is cut off.
const SPILL: usize = 1024 * 1024;

/// The one character that a URL can carry and PostgreSQL's text cannot.
const NUL: &str = "%00";

/// Set by the route table for a route with a limit of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimit(pub(super) usize);

/// Set by the gate for every route: a body that dawdles holds a connection for nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyDeadline(pub(super) Duration);

/// A JSON request body.
#[derive(Clone, Copy, Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        if !is_json(&request) {
            return Err(ApiError::new(Code::BodyMalformed).message("the body must be sent as application/json"));
        }
        if is_coded(&request) {
            return Err(ApiError::new(Code::BodyMalformed).message("the body must be sent without a content-encoding"));
        }
        let limit = request
            .extensions()
            .get::<BodyLimit>()
            .map_or(BODY_LIMIT, |limit| limit.0);
        let deadline = request
            .extensions()
            .get::<BodyDeadline>()
            .map_or(BODY_DEADLINE, |deadline| deadline.0);
        let bytes = tokio::time::timeout(deadline, read(request, limit))
            .await
            .map_err(|_| ApiError::new(Code::BodyTooSlow).detail("deadline_s", deadline.as_secs()))??;
        if let Some(once) = Once::here() {
            once.body_is(&bytes);
        }
        parse(&bytes).map(Body)
    }
}

fn is_json(request: &Request) -> bool {
    let value = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = value
        .and_then(|value| value.split(';').next())
        .unwrap_or_default()
        .trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// Compressed, or sent in any other way than as it is: a small body must not become a large one here.
fn is_coded(request: &Request) -> bool {
    let plain = |name, allowed: &str| {
        let mut values = request.headers().get_all(name).iter();
        values.all(|value| {
            value
                .to_str()
                .is_ok_and(|text| text.trim().eq_ignore_ascii_case(allowed))
        })
    };
    !(plain(header::CONTENT_ENCODING, "identity") && plain(header::TRANSFER_ENCODING, "chunked"))
}

async fn read(request: Request, limit: usize) -> Result<Bytes, ApiError> {
    let mut body = request.into_body();
    let mut bytes = Vec::new();
    let mut spilt = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::new(Code::BodyMalformed).message("the body ended early"))?;
        let data = frame.into_data().unwrap_or_default();
        // Past the limit nothing is kept, but some is still read: a sender that is cut off never sees our answer.
        if spilt > 0 || bytes.len() + data.len() > limit {
            bytes = Vec::new();
            spilt += data.len();
        } else {
            bytes.extend_from_slice(&data);
        }
        if spilt > SPILL {
            break;
        }
    }
    if spilt > 0 {
        return Err(ApiError::new(Code::BodyTooLarge).detail("limit_bytes", limit));
    }
    Ok(bytes.into())
}

/// Parses bytes as the typed body; public routes and tests of bodies share it.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    if !nesting_within(bytes, MAX_DEPTH) {
        return Err(
            ApiError::new(Code::BodyMalformed).message(format!("the body nests deeper than {MAX_DEPTH} levels"))
        );
    }
    if model::json::says_nul(bytes) {
        return Err(ApiError::field("body", "texts must not contain NUL"));
    }
    serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            let field = locate::path_at(bytes, error.line(), error.column());
            ApiError::field(&field, reason(&error))
        }
        _ => ApiError::new(Code::BodyMalformed).message(format!("the body is not valid JSON: {error}")),
    })
}

/// The parser's sentence without its position, which the field's name replaces.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// Parameters in the path. An id of the wrong kind is refused by name, before any lookup.
#[derive(Clone, Copy, Debug)]
pub struct Params<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        // JSON bodies are held to the same: a NUL can be sent, but not kept or looked for.
        if parts.uri.path().contains(NUL) {
            return Err(ApiError::new(Code::IdKindMismatch).message("a path must not contain NUL (`%00`)"));
        }
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Params(value)),
            Err(PathRejection::FailedToDeserializePathParams(why)) => {
                Err(ApiError::new(Code::IdKindMismatch).message(why.body_text()))
            }
            Err(other) => Err(ApiError::internal(other)),
        }
    }
}

/// The query string.
#[derive(Clone, Copy, Debug)]
pub struct Search<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Search<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        if parts.uri.query().is_some_and(|query| query.contains(NUL)) {
            return Err(ApiError::field("query", "must not contain NUL (`%00`)"));
        }
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(Search(value)),
            Err(QueryRejection::FailedToDeserializeQueryString(why)) => Err(ApiError::field("query", why.body_text())),
            Err(other) => Err(ApiError::internal(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wish {
        #[expect(dead_code, reason = "only parsed")]
        name: String,
        #[expect(dead_code, reason = "only parsed")]
        slots: Option<Vec<u32>>,
    }

    fn refuse(body: &str) -> (Code, String) {
        let error = parse::<Wish>(body.as_bytes()).expect_err(body);
        (error.code, error.message)
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(refuse("{").0, Code::BodyMalformed);
        assert_eq!(refuse(&"[".repeat(65)).0, Code::BodyMalformed);
        let (code, message) = refuse(r#"{"name":"a","nmae":1}"#);
        assert_eq!(code, Code::FieldInvalid);
        assert!(message.starts_with("`nmae`: unknown field"), "{message}");
        let (_, message) = refuse(r#"{"name":"a","slots":[1,"x"]}"#);
        assert!(message.starts_with("`slots[1]`: invalid type"), "{message}");
        let (_, message) = refuse(r#"{"slots":[]}"#);
        assert!(message.contains("missing field `name`"), "{message}");
    }
}
