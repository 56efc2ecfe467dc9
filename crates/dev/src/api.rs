//! A client of the public API with a token, as a person's tools would be.

use anyhow::Context;
use http::{HeaderValue, Method, StatusCode, header};
use model::node_api::ErrorBody;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::http::{Client, Response};

const IDEMPOTENCY: http::HeaderName = http::HeaderName::from_static("idempotency-key");

#[derive(Clone)]
pub struct Api {
    client: Client,
    token: String,
}

/// An answer that was not a success.
#[derive(Debug, thiserror::Error)]
#[error("{status}: {}", body.as_ref().map_or("no error envelope", |b| b.message.as_str()))]
pub struct Refused {
    pub status: StatusCode,
    pub body: Option<ErrorBody>,
}

impl Refused {
    pub fn code(&self) -> Option<model::signal::Code> {
        self.body.as_ref().map(|body| body.code)
    }
}

impl Api {
    pub fn new(url: &str, token: &str) -> anyhow::Result<Self> {
        Ok(Self {
            client: Client::builder(url)?.build(),
            token: token.to_owned(),
        })
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub fn url(&self) -> &str {
        self.client.base()
    }

    /// The same caller at another replica.
    pub fn at(&self, url: &str) -> anyhow::Result<Self> {
        Self::new(url, &self.token)
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        read(self.call(Method::GET, path, None::<&()>).await?)
    }

    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> anyhow::Result<T> {
        read(self.call(Method::POST, path, Some(body)).await?)
    }

    /// Under a key of the caller's own: asked twice it is asked once.
    pub async fn post_as<T: DeserializeOwned>(
        &self,
        key: &str,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        read(self.call_as(key, path, body).await?)
    }

    /// The same, whatever the answer is.
    pub async fn call_as(&self, key: &str, path: &str, body: &impl Serialize) -> anyhow::Result<Response> {
        let bearer = HeaderValue::from_str(&format!("Bearer {}", self.token))?;
        let request = self
            .client
            .request(Method::POST, path)
            .header(header::AUTHORIZATION, bearer);
        let request = request.header(IDEMPOTENCY, HeaderValue::from_str(key)?);
        Ok(request.json(body)?.send().await?)
    }

    /// Of an object in this version, as its ETag says; none says nothing about it.
    pub async fn call_if(&self, method: Method, path: &str, version: Option<&str>) -> anyhow::Result<Response> {
        let bearer = HeaderValue::from_str(&format!("Bearer {}", self.token))?;
        let mut request = self.client.request(method, path).header(header::AUTHORIZATION, bearer);
        if let Some(version) = version {
            request = request.header(header::IF_MATCH, HeaderValue::from_str(version)?);
        }
        Ok(request.send().await?)
    }

    /// A change of an object in this version.
    pub async fn patch_if(&self, path: &str, version: &str, body: &impl Serialize) -> anyhow::Result<Response> {
        let bearer = HeaderValue::from_str(&format!("Bearer {}", self.token))?;
        let request = self
            .client
            .request(Method::PATCH, path)
            .header(header::AUTHORIZATION, bearer);
        let request = request.header(header::IF_MATCH, HeaderValue::from_str(version)?);
        Ok(request.json(body)?.send().await?)
    }

    /// Whatever the answer is. What is deleted is deleted in whatever version it has.
    pub async fn call(&self, method: Method, path: &str, body: Option<&impl Serialize>) -> anyhow::Result<Response> {
        let bearer = HeaderValue::from_str(&format!("Bearer {}", self.token))?;
        let any = matches!(method, Method::PATCH | Method::DELETE);
        let mut request = self.client.request(method, path).header(header::AUTHORIZATION, bearer);
        if any {
            request = request.header(header::IF_MATCH, HeaderValue::from_static("*"));
        }
        if let Some(body) = body {
            request = request.json(body)?;
        }
        // A stream goes on for as long as somebody listens; that it opens, and its first words, are the answer.
        if path.split('?').next().is_some_and(|path| path.ends_with("/events")) {
            let begun = request.hold().await?;
            return match begun {
                Ok(mut held) => Ok(Response {
                    status: StatusCode::OK,
                    headers: http::HeaderMap::new(),
                    body: held.piece().await?.unwrap_or_default(),
                }),
                Err(refused) => Ok(refused),
            };
        }
        Ok(request.send().await?)
    }
}

fn read<T: DeserializeOwned>(response: Response) -> anyhow::Result<T> {
    if !response.status.is_success() {
        return Err(Refused {
            status: response.status,
            body: response.error(),
        }
        .into());
    }
    response.json().context("the answer has another shape")
}
