//! Server-sent events as an answer. What was told and not yet read is bounded: a reader who lets it fill up for too long
//! hears why in the last word, for which a place is kept, and comes back to where they were. Nothing here knows what is
//! told.

use std::fmt::Write as _;
use std::time::Duration;

use ::metrics::counter;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use model::signal::Code;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::mpsc::{self, OwnedPermit, Sender};

use crate::metrics::HTTP_STREAMS_ENDED;

/// Told and not yet taken by the connection, which has a buffer of its own.
const BUFFER: usize = 32;
/// How soon one who was cut off comes back by itself.
const RETRY_MS: u32 = 1000;

/// Where a stream is told into.
#[derive(Debug)]
pub struct Outlet {
    told: Sender<Bytes>,
    /// Kept from the start: the last word is heard by a reader who reads at all.
    last_word: OwnedPermit<Bytes>,
    patience: Duration,
}

/// The reader is gone, or does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unheard {
    Gone,
    Slow,
}

/// An answer that goes on, and where to tell into. `place` is given back when the connection lets go of the answer.
pub fn stream_answer(patience: Duration, place: impl Send + 'static) -> Option<(Outlet, Response)> {
    let (told, mut heard) = mpsc::channel::<Bytes>(BUFFER);
    let last_word = told.clone().try_reserve_owned().ok()?;
    let frames = stream::poll_fn(move |context| {
        let _held = &place;
        heard
            .poll_recv(context)
            .map(|frame| frame.map(Ok::<_, std::convert::Infallible>))
    });
    let mut response = Body::from_stream(frames).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // An edge that gathers answers would hold every event back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    let outlet = Outlet {
        told,
        last_word,
        patience,
    };
    Some((outlet, response))
}

impl Outlet {
    /// The first words: that it is heard, how soon to come back, and from where.
    pub async fn open(&self, at: i64) -> Result<(), Unheard> {
        self.put(format!(": hello\nretry: {RETRY_MS}\nid: {at}\n\n")).await
    }

    /// Nothing happened, but everything up to `at` was seen; whoever is cut off comes back to there.
    pub async fn comment(&self, at: i64) -> Result<(), Unheard> {
        self.put(format!(": still here\nid: {at}\n\n")).await
    }

    pub async fn event(&self, seq: i64, kind: &str, data: &impl Serialize) -> Result<(), Unheard> {
        self.put(frame(Some(seq), kind, data)).await
    }

    /// Says why nothing more comes.
    pub fn end(self, code: Code) {
        counter!(HTTP_STREAMS_ENDED, "code" => code.as_str()).increment(1);
        let word = frame(None, "end", &json!({ "code": code, "message": code.meaning() }));
        self.last_word.send(Bytes::from(word));
    }

    /// Returns when the reader is gone.
    pub async fn gone(&self) {
        self.told.closed().await;
    }

    async fn put(&self, frame: String) -> Result<(), Unheard> {
        match self.told.send_timeout(Bytes::from(frame), self.patience).await {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Closed(_)) => Err(Unheard::Gone),
            Err(SendTimeoutError::Timeout(_)) => Err(Unheard::Slow),
        }
    }
}

/// One event. JSON has no line breaks, so its data is one line; kinds are words of ours.
fn frame(seq: Option<i64>, kind: &str, data: &impl Serialize) -> String {
    let mut frame = String::new();
    let data = serde_json::to_string(data).unwrap_or_else(|error| json!({ "error": error.to_string() }).to_string());
    if let Some(seq) = seq {
        writeln!(frame, "id: {seq}").unwrap_or_default();
    }
    write!(frame, "event: {kind}\ndata: {data}\n\n").unwrap_or_default();
    frame
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_reader_who_does_not_read_is_told_why_and_keeps_nothing_alive() {
        let (place, given_back) = tokio::sync::oneshot::channel::<()>();
        let (outlet, response) = stream_answer(Duration::from_millis(10), place).expect("fresh");
        let mut told = 0;
        let unheard = loop {
            match outlet.event(told, "test.told", &json!({ "n": told })).await {
                Ok(()) => told += 1,
                Err(unheard) => break unheard,
            }
        };
        assert_eq!((unheard, told), (Unheard::Slow, BUFFER as i64 - 1));
        outlet.end(Code::StreamTooSlow);
        let text = response.into_body().collect().await.expect("whole").to_bytes();
        let text = String::from_utf8(text.to_vec()).expect("text");
        assert!(
            text.starts_with("id: 0\nevent: test.told\ndata: {\"n\":0}\n\n"),
            "{text}"
        );
        assert!(
            text.ends_with("\n\n") && text.contains("event: end\ndata: {\"code\":\"stream_too_slow\""),
            "{text}"
        );
        assert!(given_back.await.is_err(), "the place is free again");
    }

    #[tokio::test]
    async fn a_reader_who_left_is_noticed() {
        let (outlet, response) = stream_answer(Duration::from_secs(60), ()).expect("fresh");
        outlet.open(7).await.expect("heard");
        drop(response);
        outlet.gone().await;
        assert_eq!(outlet.comment(7).await, Err(Unheard::Gone));
    }
}
