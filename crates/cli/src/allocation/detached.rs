//! Whoever stops looking at an allocation changes nothing about it, and is told how to look again and, where that is still
//! something to decide, how to take it back.

use model::signal::Code;
use model::state::AllocationState;
use serde_json::Value;

use super::watch::{is_asked, short, state, text_at};
use crate::failure::{Exit, Failure};
use crate::output::{Format, text};
use crate::session::Session;

pub(super) fn detached(session: &mut Session, seen: &Value) -> Result<Failure, Failure> {
    let id = text::plain(text_at(seen, "id"));
    if session.out.format == Format::Json {
        return Ok(stopped(Exit::Interrupted, seen, format!("detached; {id} goes on")));
    }
    let goes_on = format!("detached; {} goes on", short(seen));
    session.out.note(&match left_to_do(seen) {
        Left::Look => format!("{goes_on}\n  look again: gpuaas allocation show {id}"),
        Left::Watch => format!("{goes_on}\n  look again: gpuaas allocation watch {id}"),
        Left::TakeBack => format!(
            "{goes_on}\n  look again: gpuaas allocation watch {id}\n  take back:  gpuaas allocation release {id}"
        ),
    })?;
    Ok(Failure::silent(Exit::Interrupted))
}

pub(super) fn stopped(exit: Exit, seen: &Value, message: String) -> Failure {
    let id = text_at(seen, "id");
    let hint = match left_to_do(seen) {
        Left::Look => format!("gpuaas allocation show {id}"),
        Left::Watch => format!("gpuaas allocation watch {id}"),
        Left::TakeBack => format!("gpuaas allocation watch {id}, or gpuaas allocation release {id}"),
    };
    Failure::new(exit, Code::WaitStopped, message)
        .hint(hint)
        .detail("allocation_id", id)
}

/// For whoever stops looking in the middle.
enum Left {
    /// It is there, and something is done to it: nobody is told to give it back for that.
    Look,
    /// It is on its way out already.
    Watch,
    TakeBack,
}

fn left_to_do(seen: &Value) -> Left {
    match state(seen) {
        _ if is_asked(seen) => Left::Look,
        Some(AllocationState::Unwinding | AllocationState::Releasing) => Left::Watch,
        Some(
            AllocationState::Requested
            | AllocationState::Provisioning
            | AllocationState::Active
            | AllocationState::Released
            | AllocationState::Failed
            | AllocationState::Cancelled,
        )
        | None => Left::TakeBack,
    }
}
