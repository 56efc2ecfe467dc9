//! The one error a handler can return: a stable code, a sentence, a hint. It becomes the envelope that every client
//! of ours knows. What caused an internal error is logged here, once, and never told to the caller.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use model::node_api::{ErrorAnswer, ErrorBody};
use model::signal::Code;
use model::text::shown;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::shell::correlation_id;
use crate::tx::Target;

/// What somebody may not do, as the audit names it. The gate writes it down.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) action: &'static str,
    pub(super) target: Target,
}

#[derive(Debug)]
pub struct ApiError {
    pub code: Code,
    pub message: String,
    pub hint: Option<String>,
    pub details: Map<String, Value>,
    pub retry_after_s: Option<u32>,
    refused: Option<Box<Refused>>,
    cause: Option<anyhow::Error>,
}

impl ApiError {
    /// The code's own sentence and remedy; say more with `message` and `hint`.
    pub fn new(code: Code) -> Self {
        Self {
            code,
            message: code.meaning().to_owned(),
            hint: Some(code.recovery().to_owned()),
            details: Map::new(),
            retry_after_s: None,
            refused: None,
            cause: None,
        }
    }

    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    pub fn retry_after_s(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Authority is refused: `action` on this target, which is no secret to the caller.
    pub fn forbidden(action: &'static str, target: impl Into<Target>) -> Self {
        let target = target.into();
        Self {
            refused: Some(Box::new(Refused { action, target })),
            ..Self::new(Code::Forbidden)
        }
    }

    /// A field that is well-formed JSON and still not acceptable: the message says which, and what it wants.
    pub fn field(field: &str, why: impl Into<String>) -> Self {
        Self::new(Code::FieldInvalid)
            .message(format!("`{field}`: {}", why.into()))
            .hint(format!("change `{field}` and ask again; nothing was done"))
            .detail("field", field)
    }

    /// A bug or a broken dependency; the cause goes to the log only.
    pub fn internal(cause: impl Into<anyhow::Error>) -> Self {
        Self {
            cause: Some(cause.into()),
            ..Self::new(Code::Internal)
        }
    }

    pub fn status(&self) -> StatusCode {
        // A code that never answers a request has no status of its own; if one gets here it is our mistake.
        match self.code.status() {
            0 => StatusCode::INTERNAL_SERVER_ERROR,
            status => StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// A refusal repeats what it was asked; nothing of that moves the cursor of whoever prints the answer as it came.
    pub fn envelope(mut self, correlation_id: Uuid) -> ErrorAnswer {
        for detail in self.details.values_mut() {
            if let Value::String(text) = detail {
                *text = shown(text);
            }
        }
        ErrorAnswer {
            error: ErrorBody {
                code: self.code,
                message: shown(&self.message),
                hint: self.hint.as_deref().map(shown),
                correlation_id: correlation_id.to_string(),
                details: Value::Object(self.details),
                retry_after_s: self.retry_after_s,
            },
        }
    }
}

impl From<Code> for ApiError {
    fn from(code: Code) -> Self {
        Self::new(code)
    }
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        let away = match &error {
            sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
                true
            }
            // Class 08: connection; 40: another transaction was in the way; 53: no room; 55P03, 57014: too slow; 57P: shut down.
            sqlx::Error::Database(database) => database.code().is_some_and(|state| {
                ["08", "40", "53", "55P03", "57014", "57P"]
                    .iter()
                    .any(|class| state.starts_with(class))
            }),
            _ => false,
        };
        let code = if away {
            Code::DatabaseUnavailable
        } else {
            Code::Internal
        };
        let mut this = Self {
            cause: Some(error.into()),
            ..Self::new(code)
        };
        this.retry_after_s = away.then_some(2);
        this
    }
}

impl From<anyhow::Error> for ApiError {
    fn from(error: anyhow::Error) -> Self {
        Self::internal(error)
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for ApiError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause
            .as_ref()
            .map(|cause| cause.as_ref() as &(dyn std::error::Error + 'static))
    }
}

impl IntoResponse for ApiError {
    fn into_response(mut self) -> Response {
        let status = self.status();
        if let Some(cause) = self.cause.take() {
            tracing::error!(code = %self.code, error = %format!("{cause:#}"), "request failed");
        }
        let retry = self
            .retry_after_s
            .or((status == StatusCode::SERVICE_UNAVAILABLE).then_some(1));
        self.retry_after_s = retry;
        let (code, refused) = (self.code, self.refused.take());
        let mut response = (status, Json(self.envelope(correlation_id()))).into_response();
        if let Some(seconds) = retry {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(code);
        if let Some(refused) = refused {
            response.extensions_mut().insert(*refused);
        }
        response
    }
}
