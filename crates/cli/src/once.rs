//! What must not happen twice: a wish under a key, which is sent again under the same key for as long as nobody knows what
//! became of it. Whoever stops waiting hears the key, and finds by it what was made.

use std::pin::pin;
use std::time::Duration;

use model::signal::Code;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use uuid::Uuid;
use wire::retry::Backoff;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::text;
use crate::session::Session;

/// From the first try on.
const PATIENCE: Duration = Duration::from_secs(45);
const FIRST: Duration = Duration::from_millis(200);
const CEILING: Duration = Duration::from_secs(4);

#[derive(clap::Args)]
pub(crate) struct Once {
    /// Of your own choice: asked again under the same key, within a day, it is still asked once
    #[arg(long, value_name = "KEY", value_parser = key)]
    idempotency_key: Option<String>,
}

fn key(text: &str) -> Result<String, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    match (1..=64).contains(&text.len()) && text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("1 to 64 letters, digits, `-` or `_`".to_owned()),
    }
}

pub(crate) async fn post(
    session: &mut Session,
    client: &Client,
    path: &str,
    body: &impl Serialize,
    once: Once,
) -> Result<Value, Failure> {
    let key = once
        .idempotency_key
        .unwrap_or_else(|| Uuid::new_v4().simple().to_string());
    let interrupt = session.out.env.interrupt.clone();
    let mut interrupted = pin!(interrupt.heard());
    let until = Instant::now() + PATIENCE;
    let mut backoff = Backoff::new(FIRST, CEILING);
    // Somebody may have it: from then on only an answer to this key is an end.
    let mut unsure = false;
    loop {
        let asking = async {
            let answer = client.post_as(&key, path, body).await;
            if let Err(failure) = &answer
                && (unsure || failure.unsure)
            {
                let wait = failure.retry_after_s.map_or(Duration::ZERO, Duration::from_secs);
                sleep(wait.min(CEILING).max(backoff.draw())).await;
            }
            answer
        };
        let answer = tokio::select! {
            biased;
            () = &mut interrupted => {
                let failure = Failure::new(Exit::Interrupted, Code::WaitStopped, "stopped waiting for an answer");
                return Err(told(failure, &key));
            }
            answer = asking => answer,
        };
        let failure = match answer {
            Ok(document) => return Ok(document),
            Err(failure) => failure,
        };
        let goes_on = failure.passing || failure.code == Code::IdempotencyInFlight.as_str();
        if !(unsure && goes_on || failure.unsure) {
            return Err(failure);
        }
        if Instant::now() >= until {
            return Err(told(failure, &key));
        }
        if !unsure {
            let what = format!("{}; asking again, for the same one", text::plain(&failure.message));
            session.out.note(&what)?;
        }
        unsure = true;
    }
}

fn told(failure: Failure, key: &str) -> Failure {
    let hint = format!("it may have been accepted: repeat it with --idempotency-key {key}, and it is asked once");
    failure.hint(hint).detail("idempotency_key", key)
}
