//! A task as it happens: queued, dispatched, started, ended. Woken by the server and not by a timer; a connection that
//! breaks is made again until the time is over. Refuses to cancel by accident: Ctrl-C only stops looking, and says how
//! to look again.

mod findings;
mod lines;
mod phases;

use std::pin::pin;
use std::time::Duration;

use model::signal::Code;
use model::state::TaskState;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::column::find;
use crate::output::{Format, text};
use crate::session::Session;
use crate::task;
#[cfg(test)]
pub(crate) use findings::FINDINGS;
use lines::Lines;
#[cfg(test)]
pub(crate) use phases::PHASES;
pub(crate) use phases::{running as running_phase, show as show_phases};

/// Below the silence after which proxies cut a connection.
const WAIT_S: u64 = 10;
const TICK: Duration = Duration::from_millis(100);
/// Between two looks at a server that is away, or that answers at once although nothing changed.
const PAUSE: Duration = Duration::from_millis(500);

/// Shows the task until it ends. Success is success; every other end is a failure with the task's own code.
pub(crate) async fn follow(
    session: &mut Session,
    client: &Client,
    mut task: Value,
    timeout: Duration,
) -> Result<(), Failure> {
    let interrupt = session.out.env.interrupt.clone();
    let mut interrupted = pin!(interrupt.heard());
    let out = &mut session.out;
    let mut lines = Lines::new(out, &task)?;
    let deadline = Instant::now() + timeout;
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    lines.show(out, &task)?;
    while !has_ended(&task) {
        let left_s = deadline.saturating_duration_since(Instant::now()).as_secs() + 1;
        let place = task::path(text_at(&task, "id"));
        let mut looking = pin!(look(client, &place, version(&task), left_s.min(WAIT_S)));
        let seen = loop {
            tokio::select! {
                biased;
                () = &mut interrupted => {
                    lines.clear(out)?;
                    return Err(detached(session, &task)?);
                }
                () = sleep_until(deadline) => {
                    lines.clear(out)?;
                    return Err(stopped(Exit::WaitTimedOut, &task, format!("{} is still {} after {} s", short(&task), state(&task), timeout.as_secs())));
                }
                seen = &mut looking => break seen,
                _ = tick.tick() => lines.tick(out, &task)?,
            }
        };
        match seen {
            Ok(fresh) if version(&fresh) > version(&task) => {
                task = fresh;
                lines.show(out, &task)?;
            }
            Ok(_) => {}
            Err(failure) if failure.passing => lines.say_once(out, &text::plain(&failure.message))?,
            Err(failure) => {
                lines.clear(out)?;
                return Err(failure);
            }
        }
    }
    lines.finish(out, &task)?;
    judge(&task)
}

/// One long poll. An answer that brought nothing does not come back at once.
async fn look(client: &Client, path: &str, known: i64, wait_s: u64) -> Result<Value, Failure> {
    let began = Instant::now();
    let seen = client.get_changed(path, known, wait_s).await;
    let brought_nothing = match &seen {
        Ok(fresh) => version(fresh) <= known,
        Err(failure) => failure.passing,
    };
    if brought_nothing {
        sleep(PAUSE.saturating_sub(began.elapsed())).await;
    }
    seen
}

fn judge(task: &Value) -> Result<(), Failure> {
    if state(task) == TaskState::Succeeded.as_str() {
        return Ok(());
    }
    let detail = find(task, "detail");
    let message = match detail.as_str().filter(|detail| !detail.is_empty()) {
        Some(detail) => format!("{} {}: {detail}", short(task), state(task)),
        None => format!("{} {}", short(task), state(task)),
    };
    let mut failure =
        Failure::new(Exit::Error, Code::Internal, message).hint(format!("gpuaas task show {}", text_at(task, "id")));
    if let Some(code) = task.get("code").and_then(Value::as_str) {
        failure.code = code.to_owned();
    }
    failure.correlation_id = task.get("correlation_id").and_then(Value::as_str).map(str::to_owned);
    Err(failure)
}

/// Ctrl-C is not an error, so it is not told like one; except to programs, which get the one shape.
fn detached(session: &mut Session, task: &Value) -> Result<Failure, Failure> {
    let id = text::plain(text_at(task, "id"));
    if session.out.format == Format::Json {
        return Ok(stopped(Exit::Interrupted, task, format!("detached; {id} goes on")));
    }
    session.out.note(&format!(
        "detached; {} goes on\n  look again: gpuaas task show {id} --wait\n  stop it:    gpuaas task cancel {id}",
        short(task)
    ))?;
    Ok(Failure::silent(Exit::Interrupted))
}

fn stopped(exit: Exit, task: &Value, message: String) -> Failure {
    let id = text_at(task, "id");
    Failure::new(exit, Code::WaitStopped, message)
        .hint(format!("gpuaas task show {id} --wait, or gpuaas task cancel {id}"))
        .detail("task_id", id)
}

fn has_ended(task: &Value) -> bool {
    state(task).parse::<TaskState>().is_ok_and(TaskState::is_end)
}

fn state(task: &Value) -> &str {
    text_at(task, "state")
}

fn short(task: &Value) -> String {
    text::short_id(&text::plain(text_at(task, "id")))
}

fn text_at<'a>(task: &'a Value, place: &str) -> &'a str {
    task.get(place).and_then(Value::as_str).unwrap_or_default()
}

fn version(task: &Value) -> i64 {
    task.get("version").and_then(Value::as_i64).unwrap_or_default()
}
