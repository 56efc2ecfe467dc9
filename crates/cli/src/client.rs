//! The API as the commands see it: documents in, documents or a `Failure` out. One correlation id for the whole
//! command, so that everything it caused can be found by it. Nothing is sent twice here; waits try again, and `once`.

use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderName, HeaderValue, IF_MATCH};
use model::signal::Code;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;
pub(crate) use wire::form::encode;
use wire::http::{Error, ErrorKind, Held, RequestBuilder};

use crate::authorities;
use crate::config::Settings;
use crate::failure::{Exit, Failure};

const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const IDEMPOTENCY: HeaderName = HeaderName::from_static("idempotency-key");
/// The largest page that the API gives.
pub(crate) const PAGE: usize = 200;
const MAX_BODY: usize = 8 << 20;

#[derive(Clone)]
pub(crate) struct Client {
    http: wire::http::Client,
    logged_in: bool,
}

/// So many empty pages one after the other are millions of rows without one that is wanted.
const EMPTY_MOST: usize = 1000;

/// A page that leads back to itself, or on and on to empty ones, would be read for ever.
pub(crate) fn leads_nowhere(empty: usize, from: Option<&str>, to: Option<&str>) -> bool {
    empty > EMPTY_MOST || from == to
}

impl Client {
    pub(crate) fn new(settings: &Settings) -> Result<Self, Failure> {
        let url = settings.url.as_ref().ok_or_else(|| {
            Failure::new(
                Exit::Login,
                Code::Unauthenticated,
                "no server is configured and no development server runs here",
            )
            .hint("gpuaas auth login --with-token --url https://…, or start one by `make dev`")
        })?;
        let mut builder = wire::http::Client::builder(&url.value)
            .map_err(|error| broken(&url.value, &error))?
            .max_body(MAX_BODY);
        if url.value.starts_with("https://") {
            builder = builder.tls(authorities::config(settings.ca_file.as_ref())?);
        }
        let correlation = Uuid::new_v4().to_string();
        if let Ok(value) = HeaderValue::from_str(&correlation) {
            builder = builder.header(CORRELATION, value);
        }
        if let Some(token) = &settings.token {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.value.expose())).map_err(|_| {
                Failure::new(
                    Exit::Login,
                    Code::TokenInvalid,
                    format!("the token from {} has characters that no token has", token.from),
                )
            })?;
            value.set_sensitive(true);
            builder = builder.header(AUTHORIZATION, value);
        }
        Ok(Self {
            http: builder.build(),
            logged_in: settings.token.is_some(),
        })
    }

    pub(crate) fn base(&self) -> &str {
        self.http.base()
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.send(self.http.get(path), true).await
    }

    /// What anybody may ask, and quickly.
    pub(crate) async fn get_public(&self, path: &str, patience: Duration) -> Result<Value, Failure> {
        self.send(self.http.get(path).timeout(patience), false).await
    }

    /// Answers when something has changed, or after `wait_s`.
    pub(crate) async fn get_changed(&self, path: &str, version: i64, wait_s: u64) -> Result<Value, Failure> {
        let path = format!("{path}?changed_since={version}&wait_s={wait_s}");
        let patience = Duration::from_secs(wait_s + 15);
        self.send(self.http.get(&path).timeout(patience), true).await
    }

    pub(crate) async fn post(&self, path: &str, body: &impl Serialize) -> Result<Value, Failure> {
        let request = self
            .http
            .post(path)
            .json(body)
            .map_err(|error| broken(self.base(), &error))?;
        self.send(request, true).await
    }

    /// For what must not happen twice: whoever repeats it under the same key gets the same answer.
    pub(crate) async fn post_as(&self, key: &str, path: &str, body: &impl Serialize) -> Result<Value, Failure> {
        let request = self
            .http
            .post(path)
            .json(body)
            .map_err(|error| broken(self.base(), &error))?;
        let value = HeaderValue::from_str(key).map_err(|_| Failure::usage("no usable idempotency key"))?;
        self.send(request.header(IDEMPOTENCY, value), true).await
    }

    /// In the version that was looked at; another one is a conflict.
    pub(crate) async fn delete(&self, path: &str, seen: &Value) -> Result<Value, Failure> {
        let request = self
            .http
            .request(http::Method::DELETE, path)
            .header(IF_MATCH, tag(seen)?);
        self.send(request, true).await
    }

    /// The same for a change.
    pub(crate) async fn patch(&self, path: &str, seen: &Value, body: &impl Serialize) -> Result<Value, Failure> {
        let request = self
            .http
            .request(http::Method::PATCH, path)
            .header(IF_MATCH, tag(seen)?);
        let request = request.json(body).map_err(|error| broken(self.base(), &error))?;
        self.send(request, true).await
    }

    /// The newest `most` items, however many pages they take; `next` tells whether there are more.
    pub(crate) async fn list(
        &self,
        path: &str,
        filters: &[(&str, Option<String>)],
        most: usize,
    ) -> Result<Value, Failure> {
        let mut items: Vec<Value> = Vec::new();
        let mut next: Option<String> = None;
        let mut empty = 0;
        while items.len() < most {
            let limit = (most - items.len()).min(PAGE);
            let (more, after) = self.page(path, filters, limit, next.as_deref()).await?;
            empty = if more.is_empty() { empty + 1 } else { 0 };
            let stuck = leads_nowhere(empty, next.as_deref(), after.as_deref());
            items.extend(more);
            next = after;
            if next.is_none() || stuck {
                break;
            }
        }
        Ok(json!({"items": items, "next": next}))
    }

    /// One page, and where the next one begins. It may be empty and others follow: its filter has left out all that was
    /// looked at for it.
    pub(crate) async fn page(
        &self,
        path: &str,
        filters: &[(&str, Option<String>)],
        limit: usize,
        after: Option<&str>,
    ) -> Result<(Vec<Value>, Option<String>), Failure> {
        let mut query = format!("{path}?limit={limit}");
        let filters = filters
            .iter()
            .filter_map(|(name, value)| Some((*name, value.as_deref()?)));
        for (name, value) in filters.chain(after.map(|after| ("after", after))) {
            query.push_str(&format!("&{name}={}", encode(value)));
        }
        let mut page = self.get(&query).await?;
        let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) else {
            return Err(Failure::new(
                Exit::Error,
                Code::BodyMalformed,
                format!("{path} did not answer with a list"),
            ));
        };
        let next = page.get("next").and_then(Value::as_str).map(str::to_owned);
        Ok((items, next))
    }

    /// An answer that goes on, after the event of this id.
    pub(crate) async fn hold(&self, path: &str, after: Option<&str>) -> Result<Held, Failure> {
        self.need_login()?;
        let mut request = self.http.get(path);
        if let Some(after) = after {
            let value = HeaderValue::from_str(after).map_err(|_| Failure::usage("no usable event id"))?;
            request = request.header(LAST_EVENT_ID, value);
        }
        let begun = request.hold().await.map_err(|error| broken(self.base(), &error))?;
        begun.map_err(|answer| refused(&answer))
    }

    fn need_login(&self) -> Result<(), Failure> {
        if self.logged_in {
            return Ok(());
        }
        Err(Failure::new(
            Exit::Login,
            Code::Unauthenticated,
            format!("not logged in to {}", self.base()),
        ))
    }

    async fn send(&self, request: RequestBuilder<'_>, needs_login: bool) -> Result<Value, Failure> {
        if needs_login {
            self.need_login()?;
        }
        let answer = request.send().await.map_err(|error| broken(self.base(), &error))?;
        if !answer.status.is_success() {
            return Err(refused(&answer));
        }
        if answer.body.is_empty() {
            return Ok(json!({}));
        }
        answer.json().map_err(|error| broken(self.base(), &error))
    }
}

fn tag(seen: &Value) -> Result<HeaderValue, Failure> {
    let version = seen.get("version").and_then(Value::as_i64).unwrap_or_default();
    HeaderValue::from_str(&format!("\"{version}\"")).map_err(|_| Failure::usage("no usable version"))
}

fn refused(answer: &wire::http::Response) -> Failure {
    let correlation = answer.headers.get(CORRELATION).and_then(|value| value.to_str().ok());
    Failure::of_answer(answer.status, &answer.body, correlation.map(str::to_owned))
}

/// A connection that failed, in words; the kind decides, the text only explains.
fn broken(url: &str, error: &Error) -> Failure {
    let why = match error.kind {
        ErrorKind::UrlInvalid => return Failure::config(format!("not a server URL: {url:?}")),
        ErrorKind::DnsFailed => "its name does not resolve",
        ErrorKind::TcpRefused => "nothing listens there",
        ErrorKind::TcpTimeout => "it does not answer",
        ErrorKind::ServerCertUntrusted => "its certificate is not signed by a CA that is trusted here",
        ErrorKind::ServerCertExpired => "its certificate is out of date",
        ErrorKind::ServerNameMismatch => "its certificate is for another name",
        ErrorKind::CertExpired | ErrorKind::CertRevoked | ErrorKind::CertUntrusted => "it wants a client certificate",
        ErrorKind::Timeout => "it did not answer in time",
        ErrorKind::Closed => "the connection broke",
        ErrorKind::NotGpuaas => "what answers there is not gpuaas",
        ErrorKind::EdgeRateLimited => "something before it turns us away",
        ErrorKind::BodyTooLarge => "the answer is too large",
        ErrorKind::BodyMalformed => "the answer is not JSON",
    };
    let mut failure = Failure::new(
        Exit::Error,
        Code::ServerUnreachable,
        format!("cannot talk to {url}: {why}"),
    )
    .detail("reason", error.kind.as_str());
    failure.retry_after_s = error.retry_after_s;
    failure.passing = matches!(
        error.kind,
        ErrorKind::DnsFailed
            | ErrorKind::TcpRefused
            | ErrorKind::TcpTimeout
            | ErrorKind::Timeout
            | ErrorKind::Closed
            | ErrorKind::NotGpuaas
            | ErrorKind::EdgeRateLimited
    );
    failure.unsure = matches!(
        error.kind,
        ErrorKind::Timeout | ErrorKind::Closed | ErrorKind::NotGpuaas
    );
    if matches!(error.kind, ErrorKind::ServerCertUntrusted) {
        failure = failure.hint("for a private CA give --ca-file, GPUAAS_CA_FILE or `ca_file` in the profile");
    }
    failure
}
