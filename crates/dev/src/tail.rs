//! One who reads a stream of events, as a person's tools would.

use std::collections::VecDeque;

use anyhow::Context;
use http::{HeaderName, HeaderValue, header};
use model::api::EventView;
use wire::http::{Held, Response};
use wire::sse::{Message, Parser};

use crate::api::Api;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub struct Tail {
    held: Held,
    parser: Parser,
    ready: VecDeque<Message>,
}

impl Api {
    /// Opens a stream, from now on or after an event; or what was answered instead. Returns once the stream is open: what
    /// happens from then on is told.
    pub async fn tail(&self, path: &str, after: Option<&str>) -> anyhow::Result<Result<Tail, Response>> {
        let bearer = HeaderValue::from_str(&format!("Bearer {}", self.token()))?;
        let mut request = self.client().get(path).header(header::AUTHORIZATION, bearer);
        if let Some(after) = after {
            request = request.header(LAST_EVENT_ID, HeaderValue::from_str(after)?);
        }
        let held = match request.hold().await? {
            Ok(held) => held,
            Err(refused) => return Ok(Err(refused)),
        };
        let (parser, ready) = (Parser::default(), VecDeque::new());
        let mut tail = Tail { held, parser, ready };
        while tail.parser.last_id().is_none() {
            anyhow::ensure!(tail.more().await?, "the stream ended before it began");
        }
        Ok(Ok(tail))
    }
}

impl Tail {
    /// The next message, whatever it is; none when the stream is over.
    pub async fn message(&mut self) -> anyhow::Result<Option<Message>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// The next event. One that is not there, or an end, is an error.
    pub async fn event(&mut self) -> anyhow::Result<EventView> {
        let message = self.message().await?.context("the stream is over")?;
        serde_json::from_str(&message.data).with_context(|| format!("no event: {message:?}"))
    }

    /// Where to go on from.
    pub fn last_id(&self) -> Option<&str> {
        self.parser.last_id()
    }

    /// The next piece, whatever is in it; false when the stream is over.
    pub async fn more(&mut self) -> anyhow::Result<bool> {
        let Some(piece) = self.held.piece().await? else {
            return Ok(false);
        };
        self.ready.extend(self.parser.push(&piece)?);
        Ok(true)
    }
}
