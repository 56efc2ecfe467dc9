//! A stream of events, for as long as the person wants it or until what is followed has ended. A stream that ends or breaks
//! is opened again where it was; only what the server refuses for good, or a stream that cannot be opened in the first
//! place, is a failure.

use std::pin::pin;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use wire::http::Held;
use wire::sse::{Message, Parser};

use crate::failure::{Exit, Failure};
use crate::output::{Format, Out, text};
use crate::session::Session;

use super::allocation::Allocation;

const PAUSE: Duration = Duration::from_millis(300);
const PAUSE_MOST: Duration = Duration::from_secs(5);
/// The server says something every fifteen seconds.
const SILENCE: Duration = Duration::from_secs(45);

/// What comes after this event, or from now on; with an allocation, until it has ended.
pub(crate) async fn follow(
    session: &mut Session,
    path: &str,
    after: Option<u64>,
    allocation: Option<&Allocation<'_>>,
) -> Result<(), Failure> {
    let interrupt = session.out.env.interrupt.clone();
    let mut interrupted = pin!(interrupt.heard());
    let followed = pin!(follow_on(session, path, after, allocation));
    tokio::select! {
        biased;
        () = &mut interrupted => Err(Failure::silent(Exit::Interrupted)),
        over = followed => over,
    }
}

/// How far one connection led.
enum Heard {
    Nothing,
    Something,
    /// Events were left out, so an end may be among them.
    Missed,
    TheEnd,
}

async fn follow_on(
    session: &mut Session,
    path: &str,
    after: Option<u64>,
    allocation: Option<&Allocation<'_>>,
) -> Result<(), Failure> {
    let client = session.client()?;
    let mut place = after.map(|seq| seq.to_string());
    let (mut opened, mut pause) = (false, PAUSE);
    // What ended before a stream began is told by none.
    let mut unseen = allocation;
    loop {
        let begun = async {
            let held = client.hold(path, place.as_deref()).await?;
            let ended = match unseen {
                Some(allocation) => allocation.ended(&client).await?,
                None => None,
            };
            Ok::<_, Failure>((held, ended))
        };
        match begun.await {
            Ok((_, Some(word))) => return session.out.note(&word),
            Ok((held, None)) => {
                (opened, unseen) = (true, None);
                match read(&mut session.out, held, &mut place, allocation).await? {
                    Heard::Nothing => {}
                    Heard::Something => pause = PAUSE,
                    Heard::Missed => unseen = allocation,
                    Heard::TheEnd => return Ok(()),
                }
            }
            Err(failure) if opened && failure.passing => {}
            Err(failure) => return Err(failure),
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MOST);
    }
}

/// Until it is over, however that happens.
async fn read(
    out: &mut Out,
    mut held: Held,
    place: &mut Option<String>,
    allocation: Option<&Allocation<'_>>,
) -> Result<Heard, Failure> {
    let mut parser = Parser::default();
    let mut heard = Heard::Nothing;
    while let Ok(Ok(Some(piece))) = timeout(SILENCE, held.piece()).await {
        let Ok(messages) = parser.push(&piece) else { break };
        for message in &messages {
            heard = Heard::Something;
            show(out, message)?;
            match allocation {
                Some(allocation) if allocation.ends_with(&message.event) => return Ok(Heard::TheEnd),
                Some(_) if message.event == "reset" => heard = Heard::Missed,
                _ => {}
            }
        }
        if let Some(id) = parser.last_id() {
            *place = Some(id.to_owned());
        }
        if matches!(heard, Heard::Missed) {
            break;
        }
    }
    Ok(heard)
}

fn show(out: &mut Out, message: &Message) -> Result<(), Failure> {
    let mut event: Value = serde_json::from_str(&message.data).unwrap_or_default();
    match message.event.as_str() {
        // Why the server let go; it is asked again.
        "end" => return Ok(()),
        "reset" if out.format != Format::Json => {
            return out.note("events were missed: look at what matters again");
        }
        "reset" => event = json!({ "type": "reset", "data": event }),
        _ => {}
    }
    let seq: Option<u64> = message.id.as_deref().and_then(|id| id.parse().ok());
    if let Value::Object(fields) = &mut event {
        fields.insert("seq".to_owned(), json!(seq));
    }
    let word = |place: &str| text::plain(event.pointer(place).and_then(Value::as_str).unwrap_or_default());
    match out.format {
        Format::Json => out.ndjson(&event),
        Format::Name => out.line(&word("/id")),
        Format::Tsv => {
            let data = event
                .get("data")
                .map(|data| text::json(data, false))
                .unwrap_or_default();
            let seq = seq.map(|seq| seq.to_string()).unwrap_or_default();
            out.line(&[seq, word("/at"), word("/type"), word("/subject/id"), data].join("\t"))
        }
        Format::Table => {
            let line = format!(
                "{}  {:24} {}",
                word("/at"),
                word("/type"),
                text::short_id(&word("/subject/id"))
            );
            out.line(format!("{line}  {}", words(&event)).trim_end())
        }
    }
}

/// The plain values of an event's data, without what stands in its envelope.
fn words(event: &Value) -> String {
    let data = event.get("data").and_then(Value::as_object);
    let shown = data
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.as_str() != "project_id");
    let words = shown.filter_map(|(name, value)| match value {
        Value::String(said) => Some(format!("{}={}", text::plain(name), text::plain(said))),
        Value::Bool(true) => Some(text::plain(name)),
        Value::Number(number) => Some(format!("{}={number}", text::plain(name))),
        Value::Null | Value::Bool(false) | Value::Array(_) | Value::Object(_) => None,
    });
    words.collect::<Vec<_>>().join(" ")
}
