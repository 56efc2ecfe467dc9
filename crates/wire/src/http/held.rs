//! An answer that goes on for as long as the server has something to say. Read piece by piece; nothing is kept.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::time::timeout;

use super::{Error, ErrorKind, Response};

#[derive(Debug)]
pub struct Held(Incoming);

impl Held {
    pub(super) async fn begin(
        answer: http::Response<Incoming>,
        patience: Duration,
        max_body: usize,
    ) -> Result<Result<Self, Response>, Error> {
        let (head, body) = answer.into_parts();
        let mut response = Response {
            status: head.status,
            headers: head.headers,
            body: Bytes::new(),
        }
        .ours()?;
        if response.status.is_success() {
            return Ok(Ok(Self(body)));
        }
        let whole = timeout(patience, Limited::new(body, max_body).collect()).await;
        let whole = whole.map_err(|late| Error::new(ErrorKind::Timeout, late))?;
        response.body = whole.map_err(Error::from_body)?.to_bytes();
        Ok(Err(response))
    }

    /// The next piece; none when the answer is over. An error here is a cut connection.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            match self.0.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => return Err(Error::from_body(error.into())),
            }
        }
    }
}
