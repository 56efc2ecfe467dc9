//! An answer, whole.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use model::node_api::{ErrorAnswer, ErrorBody, header};
use model::time::Timestamp;
use serde::de::DeserializeOwned;

use super::{Error, ErrorKind};

#[derive(Clone, Debug)]
pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Response {
    pub(super) fn ours(self) -> Result<Self, Error> {
        if self.headers.contains_key(header::SERVICE) {
            return Ok(self);
        }
        Err(Error::stranger(
            self.status,
            self.text("retry-after").and_then(|seconds| seconds.parse().ok()),
        ))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| Error::new(ErrorKind::BodyMalformed, error))
    }

    /// The error that the server names, if this is one.
    pub fn error(&self) -> Option<ErrorBody> {
        if self.status.is_success() {
            return None;
        }
        serde_json::from_slice::<ErrorAnswer>(&self.body)
            .ok()
            .map(|answer| answer.error)
    }

    /// The role that answered.
    pub fn service(&self) -> Option<&str> {
        self.text(header::SERVICE)
    }

    /// The server's clock.
    pub fn server_time(&self) -> Option<Timestamp> {
        self.text(header::TIME)?.parse().ok()
    }

    pub fn manifest_version(&self) -> Option<u64> {
        self.text(header::MANIFEST)?.parse().ok()
    }

    pub fn catalogue_version(&self) -> Option<u64> {
        self.text(header::CATALOGUE)?.parse().ok()
    }
}
