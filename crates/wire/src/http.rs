//! An HTTP/1.1 client for one base URL. Bodies are bounded, every request has a deadline, and an error says which
//! hop failed in the words of preflight. An answer without `gpuaas-service` did not come from us and is an error.

mod connect;
mod error;
mod held;
mod response;
mod stream;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use serde::Serialize;

use crate::form;
use connect::Connector;
pub use error::{Error, ErrorKind};
pub use held::Held;
pub use response::Response;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Shorter than a server's patience with idle connections, so that we rarely send into one that is closing.
const POOL_IDLE: Duration = Duration::from_secs(5);
const MAX_BODY: usize = 1024 * 1024;
/// How often a request is tried whose connection ended before it was on it.
const UNSENT_TRIES: u32 = 8;

type Connections = Pool<Connector, Full<Bytes>>;

#[derive(Clone, Debug)]
pub struct Client {
    pool: Connections,
    base: String,
    headers: HeaderMap,
    timeout: Duration,
    max_body: usize,
}

/// A client in the making.
#[derive(Clone, Debug)]
pub struct Builder {
    base: String,
    connector: Connector,
    headers: HeaderMap,
    timeout: Duration,
    max_body: usize,
}

impl Client {
    /// `base` is `http(s)://host[:port][/prefix]`.
    pub fn builder(base: &str) -> Result<Builder, Error> {
        let base = base.trim_end_matches('/').to_owned();
        let uri: Uri = base.parse().map_err(|_| Error::url(&base))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() || uri.query().is_some() {
            return Err(Error::url(&base));
        }
        let connector = Connector {
            tls: None,
            resolve: None,
            timeout: CONNECT_TIMEOUT,
        };
        Ok(Builder {
            base,
            connector,
            headers: HeaderMap::new(),
            timeout: Duration::from_secs(30),
            max_body: MAX_BODY,
        })
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    pub fn get(&self, path: &str) -> RequestBuilder<'_> {
        self.request(Method::GET, path)
    }

    pub fn post(&self, path: &str) -> RequestBuilder<'_> {
        self.request(Method::POST, path)
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder<'_> {
        RequestBuilder {
            client: self,
            method,
            path: path.to_owned(),
            headers: self.headers.clone(),
            body: Bytes::new(),
            timeout: self.timeout,
        }
    }
}

impl Builder {
    /// The address to dial instead of looking the name up: `ip` or `ip:port`. Name checks are unchanged.
    pub fn resolve(mut self, address: Option<&str>) -> Result<Self, Error> {
        self.connector.resolve = address
            .map(|text| connect::Resolve::parse(text).ok_or_else(|| Error::url(text)))
            .transpose()?;
        Ok(self)
    }

    /// Needed for https.
    pub fn tls(mut self, config: Arc<ClientConfig>) -> Self {
        self.connector.tls = Some(config);
        self
    }

    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connector.timeout = timeout;
        self
    }

    pub fn max_body(mut self, bytes: usize) -> Self {
        self.max_body = bytes;
        self
    }

    /// Sent with every request.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub fn build(self) -> Client {
        let pool = Pool::builder(TokioExecutor::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_timer(TokioTimer::new())
            .build(self.connector);
        Client {
            pool,
            base: self.base,
            headers: self.headers,
            timeout: self.timeout,
            max_body: self.max_body,
        }
    }
}

#[must_use = "a request goes out when it is sent"]
#[derive(Debug)]
pub struct RequestBuilder<'a> {
    client: &'a Client,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
    timeout: Duration,
}

impl<'a> RequestBuilder<'a> {
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub fn json<T: Serialize>(mut self, body: &T) -> Result<Self, Error> {
        self.body = serde_json::to_vec(body)
            .map_err(|error| Error::new(ErrorKind::BodyMalformed, error))?
            .into();
        self.headers
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(self)
    }

    /// As token endpoints want it.
    pub fn form(mut self, pairs: &[(&str, &str)]) -> Self {
        self.body = form::pairs(pairs).into();
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        self.headers.insert(CONTENT_TYPE, kind);
        self
    }

    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Any status is an answer, as long as it is ours.
    pub async fn send(self) -> Result<Response, Error> {
        self.send_foreign().await?.ours()
    }

    /// An answer that goes on: only its beginning has a deadline. What is not a success is an answer like any other.
    pub async fn hold(self) -> Result<Result<Held, Response>, Error> {
        let (timeout, max_body) = (self.timeout, self.client.max_body);
        let (pool, request) = self.request()?;
        let begun = tokio::time::timeout(timeout, exchanged(pool, request))
            .await
            .map_err(|late| Error::new(ErrorKind::Timeout, late))??;
        Held::begin(begun, timeout, max_body).await
    }

    fn request(self) -> Result<(&'a Connections, http::Request<Full<Bytes>>), Error> {
        let url = format!("{}{}", self.client.base, self.path);
        let mut request = http::Request::new(Full::new(self.body));
        *request.method_mut() = self.method;
        *request.uri_mut() = url.parse().map_err(|_| Error::url(&url))?;
        *request.headers_mut() = self.headers;
        Ok((&self.client.pool, request))
    }

    /// Whoever answers.
    pub async fn send_foreign(self) -> Result<Response, Error> {
        let (timeout, max_body) = (self.timeout, self.client.max_body);
        let (pool, request) = self.request()?;
        let exchange = async {
            let (head, body) = exchanged(pool, request).await?.into_parts();
            let body = Limited::new(body, max_body)
                .collect()
                .await
                .map_err(Error::from_body)?
                .to_bytes();
            Ok(Response {
                status: head.status,
                headers: head.headers,
                body,
            })
        };
        tokio::time::timeout(timeout, exchange)
            .await
            .map_err(|late| Error::new(ErrorKind::Timeout, late))?
    }
}

/// May something secret be sent there? Over https, or in the clear on this very machine.
pub fn keeps_secrets(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else {
        return false;
    };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match uri.scheme_str() {
        Some("https") => !host.is_empty(),
        Some("http") => here,
        _ => false,
    }
}

/// In TLS 1.3 the client is done with the handshake first: a server that dislikes our certificate may have ended the
/// connection before the request is on it, and then nobody has read why. A request that was never sent can be sent
/// again without harm, and the next connection tells.
async fn exchanged(pool: &Connections, request: http::Request<Full<Bytes>>) -> Result<http::Response<Incoming>, Error> {
    for _ in 1..UNSENT_TRIES {
        match pool.request(request.clone()).await {
            Err(error) if error::never_sent(&error) => {}
            answer => return answer.map_err(Error::from_pool),
        }
    }
    pool.request(request).await.map_err(Error::from_pool)
}

#[cfg(test)]
mod tests {
    use super::keeps_secrets;

    #[test]
    fn plain_http_only_where_nobody_else_hears_it() {
        let fine = [
            "https://id.example/a",
            "http://127.0.0.1:1/a",
            "http://[::1]:1",
            "http://localhost",
        ];
        for url in fine {
            assert!(keeps_secrets(url), "{url}");
        }
        for url in [
            "http://id.example",
            "http://127.0.0.1.example",
            "ftp://127.0.0.1",
            "id.example",
            "https://",
            "",
        ] {
            assert!(!keeps_secrets(url), "{url}");
        }
    }
}
