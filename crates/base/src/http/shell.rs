//! What surrounds every request: a correlation id that is taken or made, always returned and in every log line; the
//! name of the answering service; the Host check on loopback; and the promise that a panic is an answer, not a cut
//! connection.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::{Extensions, HeaderName, HeaderValue, header};
use model::signal::Code;
use tracing::Instrument;
use uuid::Uuid;

use super::error::ApiError;
use super::gate::address;
use super::rate::{Rates, Subject};

pub const CORRELATION_HEADER: HeaderName = HeaderName::from_static("x-correlation-id");
/// What lacks this header came from an edge and not from us.
pub const SERVICE_HEADER: HeaderName = HeaderName::from_static("gpuaas-service");

tokio::task_local! {
    static CORRELATION: Uuid;
}

/// The request's correlation id, as an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correlation(pub Uuid);

/// The id of the request that this task is answering; nil outside of one.
pub fn correlation_id() -> Uuid {
    CORRELATION.try_with(|id| *id).unwrap_or(Uuid::nil())
}

/// The same id for what is done after the request's own future has ended.
pub(super) fn in_correlation<F: Future>(work: F) -> impl Future<Output = F::Output> {
    CORRELATION.scope(correlation_id(), work)
}

/// How a listener presents itself.
#[derive(Clone, Debug)]
pub struct Shell {
    /// The role that answers, for `gpuaas-service`.
    pub service: &'static str,
    /// When set, only these hosts (without port) may be asked for: a page of another site that found our loopback port
    /// cannot speak to us under its own name.
    pub hosts: Option<Vec<String>>,
    /// When set, who asks for what does not exist pays for it as for anything else.
    pub rates: Option<Rates>,
}

impl Shell {
    pub fn new(service: &'static str) -> Self {
        Self {
            service,
            hosts: None,
            rates: None,
        }
    }

    pub fn counted(mut self, rates: &Rates) -> Self {
        self.rates = Some(rates.clone());
        self
    }

    /// For dev: answers only to loopback names.
    pub fn loopback_only(mut self) -> Self {
        self.hosts = Some(["127.0.0.1", "localhost", "[::1]"].map(str::to_owned).to_vec());
        self
    }
}

/// Puts the shell around a finished router. Unknown routes and methods get the envelope too.
pub fn finish(router: Router, shell: Shell) -> Router {
    let nothing = |code: Code| {
        let rates = shell.rates.clone();
        async move |request: Request| match rates {
            Some(rates) => counted(&rates, request.extensions(), code),
            None => ApiError::new(code).into_response(),
        }
    };
    router
        .method_not_allowed_fallback(nothing(Code::MethodNotAllowed))
        .fallback(nothing(Code::RouteNotFound))
        .layer(from_fn_with_state(Arc::new(shell), around))
}

async fn around(State(shell): State<Arc<Shell>>, mut request: Request, next: Next) -> Response {
    let id = given_id(&request).unwrap_or_else(Uuid::now_v7);
    request.extensions_mut().insert(Correlation(id));
    // The node and the task are filled in by whoever finds out about them.
    let span = tracing::info_span!(
        "request",
        correlation_id = %id,
        role = shell.service,
        node_id = tracing::field::Empty,
        task_id = tracing::field::Empty,
        method = %request.method(),
        path = request.uri().path(),
    );
    let answer = async {
        if !host_allowed(&shell, &request) {
            return ApiError::new(Code::HostRefused).into_response();
        }
        match AssertUnwindSafe(next.run(request)).catch_unwind().await {
            Ok(response) => response,
            Err(panic) => {
                let what = panic_text(panic.as_ref());
                tracing::error!(what, "a handler panicked");
                ApiError::new(Code::Internal).into_response()
            }
        }
    };
    let mut response = CORRELATION.scope(id, answer).instrument(span).await;
    let headers = response.headers_mut();
    headers.insert(SERVICE_HEADER, HeaderValue::from_static(shell.service));
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        headers.insert(CORRELATION_HEADER, value);
    }
    response
}

fn counted(rates: &Rates, asked: &Extensions, code: Code) -> Response {
    let standing = rates.count(Subject::address(address(asked)));
    let mut response = match standing.passed() {
        Ok(_) => ApiError::new(code).into_response(),
        Err(often) => often.into_response(),
    };
    standing.told(&mut response);
    response
}

fn given_id(request: &Request) -> Option<Uuid> {
    let text = request.headers().get(CORRELATION_HEADER)?.to_str().ok()?;
    Uuid::try_parse(text).ok().filter(|id| !id.is_nil())
}

fn host_allowed(shell: &Shell, request: &Request) -> bool {
    let Some(allowed) = &shell.hosts else {
        return true;
    };
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    // The port is ours by construction: the connection came in on it.
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    allowed.iter().any(|one| one.eq_ignore_ascii_case(name))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
