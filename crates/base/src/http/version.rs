//! Versions of objects. Every answer that is one object with a version carries it as its `ETag`, taken from the answer
//! itself, so that no handler can forget it; and whoever changes or deletes an object says which version they mean.

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::BodyExt;
use model::signal::Code;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;

use super::error::ApiError;

/// Which version a change is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// `*`: whatever there is.
    Any,
    Version(i64),
}

impl IfMatch {
    /// Is it still the one that was meant? Ask under the object's lock.
    pub fn holds(self, present: i64) -> Result<(), ApiError> {
        match self {
            Self::Any => Ok(()),
            Self::Version(meant) if meant == present => Ok(()),
            Self::Version(_) => Err(ApiError::new(Code::VersionConflict).detail("version", present)),
        }
    }

    fn read(headers: &HeaderMap) -> Result<Self, ApiError> {
        let value = headers.get(header::IF_MATCH).ok_or(Code::PreconditionRequired)?;
        let text = value.to_str().unwrap_or_default().trim();
        if text == "*" {
            return Ok(Self::Any);
        }
        let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let version = quoted.and_then(|digits| digits.parse().ok());
        version
            .map(Self::Version)
            .ok_or_else(|| ApiError::field("if-match", "must be the ETag of the object, such as \"7\", or *"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::read(&parts.headers)
    }
}

/// Methods that change an object which the caller has seen before.
pub(super) fn needs_version(method: &Method) -> bool {
    *method == Method::PATCH || *method == Method::DELETE
}

/// Before any handler: no route can leave the question out.
pub(super) fn demanded(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    match needs_version(method) {
        true => IfMatch::read(headers).map(drop),
        false => Ok(()),
    }
}

/// Does this type have a version that counts?
pub(super) fn is_versioned<T: JsonSchema>() -> bool {
    let schema = T::json_schema(&mut SchemaGenerator::default());
    let version = schema
        .get("properties")
        .and_then(|properties| properties.get("version"));
    version.is_some_and(|version| version.get("type").is_some_and(|word| word == "integer"))
}

/// The answer with its ETag.
pub(super) async fn tagged(response: Response) -> Response {
    #[derive(Deserialize)]
    struct Versioned {
        version: i64,
    }
    let (mut head, body) = response.into_parts();
    // Whole in memory already: a handler made it from one object.
    let Ok(bytes) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
        return ApiError::new(Code::Internal).into_response();
    };
    if let Ok(Versioned { version }) = serde_json::from_slice(&bytes)
        && let Ok(tag) = HeaderValue::from_str(&format!("\"{version}\""))
    {
        head.headers.insert(header::ETAG, tag);
    }
    Response::from_parts(head, Body::from(bytes))
}

#[cfg(test)]
mod tests {
    use axum::Json;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<IfMatch, Code> {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_MATCH, HeaderValue::from_str(text).expect("a value"));
        IfMatch::read(&headers).map_err(|error| error.code)
    }

    #[test]
    fn a_change_says_what_it_is_based_on() {
        assert_eq!(
            IfMatch::read(&HeaderMap::new()).expect_err("absent").code,
            Code::PreconditionRequired
        );
        assert_eq!((read("\"7\""), read("*")), (Ok(IfMatch::Version(7)), Ok(IfMatch::Any)));
        for bad in ["7", "W/\"7\"", "\"x\"", "\"\"", "\"1\", \"2\"", ""] {
            assert_eq!(read(bad), Err(Code::FieldInvalid), "{bad}");
        }
        let stale = IfMatch::Version(7).holds(8).expect_err("stale");
        assert_eq!(
            (stale.code, &stale.details["version"]),
            (Code::VersionConflict, &json!(8))
        );
        assert!(IfMatch::Version(8).holds(8).is_ok() && IfMatch::Any.holds(3).is_ok());
    }

    #[tokio::test]
    async fn an_object_with_a_version_carries_it() {
        let answer = tagged(Json(json!({ "id": "x", "version": 12 })).into_response()).await;
        assert_eq!(answer.headers()[header::ETAG], "\"12\"");
        let body = answer.into_body().collect().await.expect("whole").to_bytes();
        assert_eq!(body.as_ref(), br#"{"id":"x","version":12}"#);
        assert!(
            !tagged(Json(json!({})).into_response())
                .await
                .headers()
                .contains_key(header::ETAG)
        );
    }

    #[test]
    fn only_versions_that_count_are_tags() {
        assert!(is_versioned::<model::api::NodeView>() && is_versioned::<model::api::QuotaView>());
        assert!(!is_versioned::<model::api::VersionView>(), "a text");
        assert!(!is_versioned::<model::api::Page<model::api::NodeView>>(), "a list");
    }
}
