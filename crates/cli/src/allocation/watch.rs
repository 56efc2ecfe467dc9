//! An allocation as it happens: the phase it is in, then all of them with their times. Woken by the server; a connection
//! that breaks is made again until the time is over.

use std::pin::pin;
use std::time::Duration;

use model::signal::Code;
use model::state::{AllocationState, TaskState};
use model::time::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use super::detached::{detached, stopped};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::ids::{Noun, named};
use crate::output::column::{SIMULATED, find, is_simulated, time_at};
use crate::output::{Format, Out, money, text};
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
    let last = until(session, client, first, timeout, |seen| {
        state(seen).is_some_and(is_ready)
    })
    .await?;
    match state(&last.seen) {
        Some(AllocationState::Active) => active(&mut session.out, &last.seen),
        _ => Err(ended(&last.seen)),
    }
}

/// Until it is active, or has ended. To whoever only looks, that it was given back is an answer.
pub(super) async fn follow(
    session: &mut Session,
    client: &Client,
    first: Value,
    timeout: Duration,
) -> Result<(), Failure> {
    let last = until(session, client, first, timeout, |seen| {
        state(seen).is_some_and(is_ready)
    })
    .await?;
    match state(&last.seen) {
        Some(AllocationState::Active) => active(&mut session.out, &last.seen),
        Some(AllocationState::Released) => over(&mut session.out, &last),
        _ => Err(ended(&last.seen)),
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
    let is_end = |seen: &Value| state(seen).is_some_and(AllocationState::is_end);
    let last = until(session, client, first, timeout, is_end).await?;
    match state(&last.seen) {
        Some(AllocationState::Released | AllocationState::Cancelled) => over(&mut session.out, &last),
        _ => Err(ended(&last.seen)),
    }
}

/// Until its node has done what was asked, or has not. One that is given back meanwhile does nothing any more.
pub(super) async fn until_done(
    session: &mut Session,
    client: &Client,
    first: Value,
    timeout: Duration,
) -> Result<(), Failure> {
    let last = until(session, client, first, timeout, |seen| !is_asked(seen))
        .await?
        .seen;
    let asked = last.get("asked").unwrap_or(&Value::Null);
    if state(&last) != Some(AllocationState::Active) {
        return Err(ended(&last));
    }
    match text_at(asked, "state").parse() {
        // It is written down as done a moment after it is.
        Err(_) | Ok(TaskState::Succeeded) => done(&mut session.out, &last),
        Ok(_) => Err(not_done(&last, asked)),
    }
}

pub(super) fn is_asked(seen: &Value) -> bool {
    let asked = find(seen, "asked.state");
    let under_way = asked.as_str().and_then(|word| word.parse::<TaskState>().ok());
    state(seen) == Some(AllocationState::Active) && under_way.is_some_and(|state| !state.is_end())
}

fn done(out: &mut Out, seen: &Value) -> Result<(), Failure> {
    let power = text::plain(text_at(seen, "power"));
    match out.format {
        Format::Json => Ok(()),
        Format::Name => out.line(&text::plain(text_at(seen, "id"))),
        Format::Tsv => out.line(&format!("power\t{power}")),
        Format::Table if power.is_empty() => out.line(&format!("{} is done", named(seen))),
        Format::Table => out.line(&format!("{} is {power}", named(seen))),
    }
}

fn not_done(seen: &Value, asked: &Value) -> Failure {
    let (word, detail) = (text_at(asked, "state"), text_at(asked, "detail"));
    let why = if detail.is_empty() {
        text_at(asked, "code")
    } else {
        detail
    };
    let message = format!("what was asked of {} {word}: {why}", short(seen));
    let hint = format!("gpuaas allocation show {}", text_at(seen, "id"));
    let mut failure = Failure::new(Exit::Error, Code::StateConflict, message).hint(hint);
    let code = text_at(asked, "code");
    if !code.is_empty() {
        code.clone_into(&mut failure.code);
    }
    failure
}

/// What was told last of each sort: nothing is told again until it changes.
#[derive(Default)]
struct Said {
    phase: String,
    trouble: String,
    conditions: Vec<String>,
}

/// What was seen last, and when it began to go, if that was seen.
struct Last {
    seen: Value,
    going_since: Option<Timestamp>,
}

async fn until(
    session: &mut Session,
    client: &Client,
    mut seen: Value,
    timeout: Duration,
    enough: impl Fn(&Value) -> bool,
) -> Result<Last, Failure> {
    let interrupt = session.out.env.interrupt.clone();
    let mut interrupted = pin!(interrupt.heard());
    let deadline = Instant::now() + timeout;
    heading(&mut session.out, &seen)?;
    let mut said = Said::default();
    let mut going_since = going(&seen);
    while !enough(&seen) {
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
            Ok(fresh) => {
                seen = fresh;
                going_since = going_since.or_else(|| going(&seen));
                said.trouble.clear();
                progress(&mut session.out, &mut said, &seen)?;
            }
            Err(failure) if failure.passing => {
                say_once(&mut session.out, &mut said.trouble, &text::plain(&failure.message))?;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(Last { seen, going_since })
}

fn going(seen: &Value) -> Option<Timestamp> {
    match state(seen)? {
        AllocationState::Unwinding | AllocationState::Releasing => time_at(seen, "state_since"),
        AllocationState::Requested
        | AllocationState::Provisioning
        | AllocationState::Active
        | AllocationState::Released
        | AllocationState::Failed
        | AllocationState::Cancelled => None,
    }
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
            out.line(&format!(
                "{}  {} on {}{label}   {}",
                short(seen),
                text::plain(text_at(seen, "sku")),
                text::plain(text_at(seen, "node_name")),
                charge(seen),
            ))
        }
    }
}

/// What it costs, for as long as it does.
pub(super) fn charge(seen: &Value) -> String {
    let micro = seen
        .get("rate_micro_per_hour")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    let price = money::per_hour(micro, &text::plain(text_at(seen, "currency")));
    match state(seen) {
        Some(AllocationState::Requested | AllocationState::Provisioning) => format!("{price}, charged from ready"),
        Some(AllocationState::Releasing | AllocationState::Released) => "no longer charged".to_owned(),
        Some(AllocationState::Unwinding | AllocationState::Failed | AllocationState::Cancelled) => {
            "not charged".to_owned()
        }
        Some(AllocationState::Active) | None => price,
    }
}

/// Each phase once, as it begins; and what wants somebody's eye.
fn progress(out: &mut Out, said: &mut Said, seen: &Value) -> Result<(), Failure> {
    if out.format == Format::Json {
        return out.ndjson(seen);
    }
    if let Some(line) = thread::running_phase(seen) {
        say_once(out, &mut said.phase, &line)?;
    }
    let conditions = seen.get("conditions").and_then(Value::as_array);
    let line = |condition: &Value| {
        let word = |place: &str| text::plain(condition.get(place).and_then(Value::as_str).unwrap_or_default());
        format!("{}: {} {}", short(seen), word("code"), word("detail"))
    };
    let lines: Vec<String> = conditions.into_iter().flatten().map(line).collect();
    for line in lines.iter().filter(|line| !said.conditions.contains(line)) {
        out.note(line)?;
    }
    said.conditions = lines;
    Ok(())
}

fn say_once(out: &mut Out, said: &mut String, line: &str) -> Result<(), Failure> {
    if said != line {
        line.clone_into(said);
        out.note(line)?;
    }
    Ok(())
}

fn active(out: &mut Out, seen: &Value) -> Result<(), Failure> {
    thread::show_phases(out, seen)?;
    match out.format {
        Format::Json => Ok(()),
        Format::Name => out.line(&text::plain(text_at(seen, "id"))),
        Format::Tsv => out.line("state\tactive"),
        Format::Table => {
            let took = took(time_at(seen, "created_at"), seen).unwrap_or_default();
            out.line(&format!("active in {took}    gpuaas allocation show {}", short(seen)))
        }
    }
}

/// An end that was wished for: how long it took, or, for whoever came later, since when it is so.
fn over(out: &mut Out, last: &Last) -> Result<(), Failure> {
    let seen = &last.seen;
    let word = text::plain(text_at(seen, "state"));
    thread::show_phases(out, seen)?;
    match out.format {
        Format::Json => Ok(()),
        Format::Name => out.line(&text::plain(text_at(seen, "id"))),
        Format::Tsv => {
            out.line(&format!("since\t{}", text::plain(text_at(seen, "state_since"))))?;
            out.line(&format!("state\t{word}"))
        }
        Format::Table => match took(last.going_since, seen) {
            Some(took) => out.line(&format!("{word} in {took}")),
            None => {
                let age = time_at(seen, "state_since").map(|since| text::age(out.now().since_ms(since)));
                out.line(&format!("{word} {} ago", age.unwrap_or_default()))
            }
        },
    }
}

/// From then until it came into its state.
fn took(since: Option<Timestamp>, seen: &Value) -> Option<String> {
    Some(text::span(time_at(seen, "state_since")?.since_ms(since?)))
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

pub(super) fn state(seen: &Value) -> Option<AllocationState> {
    text_at(seen, "state").parse().ok()
}

pub(super) fn short(seen: &Value) -> String {
    text::short_id(&text::plain(text_at(seen, "id")))
}

pub(super) fn text_at<'a>(seen: &'a Value, place: &str) -> &'a str {
    seen.get(place).and_then(Value::as_str).unwrap_or_default()
}

fn revision(seen: &Value) -> i64 {
    seen.get("revision").and_then(Value::as_i64).unwrap_or_default()
}
