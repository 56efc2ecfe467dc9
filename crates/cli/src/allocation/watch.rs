//! An allocation as it happens: the phase it is in, then all of them with their times. Woken by the server; a connection
//! that breaks is made again until the time is over.

use std::pin::pin;
use std::time::Duration;

use model::signal::Code;
use model::state::AllocationState;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::ids::Noun;
use crate::output::column::{SIMULATED, is_simulated, time_at};
use crate::output::{Format, Out, text};
use crate::session::Session;
use crate::thread;

const WAIT_S: u64 = 10;
const PAUSE: Duration = Duration::from_millis(300);

/// Until it is active; whoever has made one wants it, and no end will do.
pub(super) async fn until_active(
    session: &mut Session,
    client: &Client,
    first: Value,
    timeout: Duration,
) -> Result<(), Failure> {
    let last = until(session, client, first, timeout, is_ready).await?;
    match state(&last) {
        Some(AllocationState::Active) => finished(&mut session.out, &last, "active"),
        _ => Err(ended(&last)),
    }
}

/// Until it is active, or has ended. To whoever only looks, that it was given back is an answer.
pub(super) async fn follow(
    session: &mut Session,
    client: &Client,
    first: Value,
    timeout: Duration,
) -> Result<(), Failure> {
    let last = until(session, client, first, timeout, is_ready).await?;
    match state(&last) {
        Some(AllocationState::Active) => finished(&mut session.out, &last, "active"),
        Some(AllocationState::Released) => released(&mut session.out, &last),
        _ => Err(ended(&last)),
    }
}

fn is_ready(state: AllocationState) -> bool {
    state == AllocationState::Active || state.is_end()
}

/// Until it has ended, however.
pub(super) async fn until_over(
    session: &mut Session,
    client: &Client,
    first: Value,
    timeout: Duration,
) -> Result<(), Failure> {
    let last = until(session, client, first, timeout, AllocationState::is_end).await?;
    match state(&last) {
        Some(AllocationState::Released | AllocationState::Cancelled) => {
            let word = text::plain(text_at(&last, "state"));
            finished(&mut session.out, &last, &word)
        }
        _ => Err(ended(&last)),
    }
}

async fn until(
    session: &mut Session,
    client: &Client,
    mut seen: Value,
    timeout: Duration,
    enough: impl Fn(AllocationState) -> bool,
) -> Result<Value, Failure> {
    let interrupt = session.out.env.interrupt.clone();
    let mut interrupted = pin!(interrupt.heard());
    let deadline = Instant::now() + timeout;
    heading(&mut session.out, &seen)?;
    let mut said = String::new();
    while !state(&seen).is_some_and(&enough) {
        let left_s = deadline.saturating_duration_since(Instant::now()).as_secs() + 1;
        let path = format!("{}/{}", Noun::Allocation.path(), text_at(&seen, "id"));
        let looking = async {
            let fresh = client.get_changed(&path, revision(&seen), left_s.min(WAIT_S)).await;
            if fresh.as_ref().map_or(true, |fresh| revision(fresh) <= revision(&seen)) {
                sleep(PAUSE).await;
            }
            fresh
        };
        let fresh = tokio::select! {
            biased;
            () = &mut interrupted => return Err(detached(session, &seen)?),
            () = sleep_until(deadline) => {
                let what = format!("{} is still {} after {} s", short(&seen), text_at(&seen, "state"), timeout.as_secs());
                return Err(stopped(Exit::WaitTimedOut, &seen, what));
            }
            fresh = looking => fresh,
        };
        match fresh {
            Ok(fresh) => seen = fresh,
            Err(failure) if failure.passing => say_once(&mut session.out, &mut said, &text::plain(&failure.message))?,
            Err(failure) => return Err(failure),
        }
        progress(&mut session.out, &mut said, &seen)?;
    }
    Ok(seen)
}

fn heading(out: &mut Out, seen: &Value) -> Result<(), Failure> {
    match out.format {
        Format::Json => out.ndjson(seen),
        Format::Name => Ok(()),
        Format::Tsv => out.line(&format!("allocation\t{}", text::plain(text_at(seen, "id")))),
        Format::Table => {
            let label = if is_simulated(seen) {
                format!(" {SIMULATED}")
            } else {
                String::new()
            };
            let micro = seen
                .get("rate_micro_per_hour")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            let price = format!("{}.{:02}", micro / 1_000_000, micro % 1_000_000 / 10_000);
            out.line(&format!(
                "{}  {} on {}{label}   {price} {}/h, charged from ready",
                short(seen),
                text::plain(text_at(seen, "sku")),
                text::plain(text_at(seen, "node_name")),
                text::plain(text_at(seen, "currency")),
            ))
        }
    }
}

/// Each phase once, as it begins; and what wants somebody's eye.
fn progress(out: &mut Out, said: &mut String, seen: &Value) -> Result<(), Failure> {
    if out.format == Format::Json {
        return out.ndjson(seen);
    }
    if let Some(line) = thread::running_phase(seen) {
        say_once(out, said, &line)?;
    }
    let conditions = seen.get("conditions").and_then(Value::as_array);
    for condition in conditions.into_iter().flatten() {
        let word = |place: &str| text::plain(condition.get(place).and_then(Value::as_str).unwrap_or_default());
        say_once(
            out,
            said,
            &format!("{}: {} {}", short(seen), word("code"), word("detail")),
        )?;
    }
    Ok(())
}

fn say_once(out: &mut Out, said: &mut String, line: &str) -> Result<(), Failure> {
    if said != line {
        line.clone_into(said);
        out.note(line)?;
    }
    Ok(())
}

fn finished(out: &mut Out, seen: &Value, word: &str) -> Result<(), Failure> {
    thread::show_phases(out, seen)?;
    match out.format {
        Format::Json => Ok(()),
        Format::Name => out.line(&text::plain(text_at(seen, "id"))),
        Format::Tsv => out.line(&format!("state\t{word}")),
        Format::Table => {
            let took = time_at(seen, "state_since").zip(time_at(seen, "created_at"));
            let took = took
                .map(|(end, begin)| text::span(end.since_ms(begin)))
                .unwrap_or_default();
            let next = if word == "active" {
                format!("    gpuaas allocation show {}", short(seen))
            } else {
                String::new()
            };
            out.line(&format!("{word} in {took}{next}"))
        }
    }
}

fn released(out: &mut Out, seen: &Value) -> Result<(), Failure> {
    thread::show_phases(out, seen)?;
    match out.format {
        Format::Json => Ok(()),
        Format::Name => out.line(&text::plain(text_at(seen, "id"))),
        Format::Tsv => {
            out.line("state\treleased")?;
            out.line(&format!("since\t{}", text::plain(text_at(seen, "state_since"))))
        }
        Format::Table => {
            let age = time_at(seen, "state_since").map(|since| text::age(out.now().since_ms(since)));
            out.line(&format!("released {} ago", age.unwrap_or_default()))
        }
    }
}

/// An end that nobody wished for, with its own code; without one, it is simply over.
fn ended(seen: &Value) -> Failure {
    let detail = text_at(seen, "detail");
    let reason = if detail.is_empty() {
        text_at(seen, "state_reason")
    } else {
        detail
    };
    let message = format!("{} {}: {reason}", short(seen), text_at(seen, "state"));
    let hint = format!("gpuaas allocation events {}", text_at(seen, "id"));
    let mut failure = Failure::new(Exit::Error, Code::StateConflict, message).hint(hint);
    let code = text_at(seen, "code");
    if !code.is_empty() {
        code.clone_into(&mut failure.code);
    }
    failure.correlation_id = Some(text_at(seen, "correlation_id").to_owned());
    failure
}

fn detached(session: &mut Session, seen: &Value) -> Result<Failure, Failure> {
    let id = text::plain(text_at(seen, "id"));
    if session.out.format == Format::Json {
        return Ok(stopped(Exit::Interrupted, seen, format!("detached; {id} goes on")));
    }
    session.out.note(&format!(
        "detached; {} goes on\n  look again: gpuaas allocation watch {id}\n  take back:  gpuaas allocation release {id}",
        short(seen)
    ))?;
    Ok(Failure::silent(Exit::Interrupted))
}

fn stopped(exit: Exit, seen: &Value, message: String) -> Failure {
    let id = text_at(seen, "id");
    Failure::new(exit, Code::WaitStopped, message)
        .hint(format!(
            "gpuaas allocation watch {id}, or gpuaas allocation release {id}"
        ))
        .detail("allocation_id", id)
}

fn state(seen: &Value) -> Option<AllocationState> {
    text_at(seen, "state").parse().ok()
}

fn short(seen: &Value) -> String {
    text::short_id(&text::plain(text_at(seen, "id")))
}

fn text_at<'a>(seen: &'a Value, place: &str) -> &'a str {
    seen.get(place).and_then(Value::as_str).unwrap_or_default()
}

fn revision(seen: &Value) -> i64 {
    seen.get("revision").and_then(Value::as_i64).unwrap_or_default()
}
