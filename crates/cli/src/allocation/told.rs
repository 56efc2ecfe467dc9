//! What is said after a verb: what became of the allocation, what it costs from now on, and what to type next. The state is
//! the one that the server answered with: whoever asks twice hears how far the first time has come.

use model::state::AllocationState;
use model::time::Timestamp;
use serde_json::Value;

use super::{lost_with, watch};
use crate::ids::named;
use crate::output::column::{SIMULATED, is_simulated, time_at};
use crate::output::{Done, text};

fn word(seen: &Value, place: &str) -> String {
    text::plain(seen.get(place).and_then(Value::as_str).unwrap_or_default())
}

fn command(verb: &str, seen: &Value) -> String {
    format!("gpuaas allocation {verb} {}", text::short_id(&word(seen, "id")))
}

pub(super) fn made(seen: &Value) -> Done {
    let label = if is_simulated(seen) { SIMULATED } else { "" };
    let place = format!("{} {label}", word(seen, "node_name"));
    let done = Done::of(format!(
        "{} is {}: {} on {}, {}",
        named(seen),
        word(seen, "state"),
        word(seen, "sku"),
        place.trim_end(),
        watch::charge(seen)
    ));
    done.next(command("watch", seen))
}

/// After a release or a cancel.
pub(super) fn ending(seen: &Value) -> Done {
    let (who, state) = (named(seen), word(seen, "state"));
    match watch::state(seen) {
        Some(AllocationState::Releasing) => Done::of(format!(
            "{who} is being released: it is no longer charged, and {}",
            lost_with(seen)
        ))
        .next(command("watch", seen)),
        Some(AllocationState::Unwinding) => {
            Done::of(format!("{who} is being taken back: it is not charged")).next(command("watch", seen))
        }
        Some(AllocationState::Released | AllocationState::Failed | AllocationState::Cancelled) => {
            Done::of(format!("{who} is {state} already: nothing was left to do")).next(command("show", seen))
        }
        Some(AllocationState::Requested | AllocationState::Provisioning | AllocationState::Active) | None => {
            Done::of(format!("{who} is {state}")).next(command("show", seen))
        }
    }
}

pub(super) fn forced(seen: &Value) -> Done {
    let who = format!("{} is {}", named(seen), word(seen, "state"));
    // It had ended by itself before.
    if seen.get("forced").and_then(Value::as_bool) != Some(true) {
        return Done::of(format!("{who} already: nothing was left to do")).next(command("show", seen));
    }
    let (what, next) = match word(seen, "kind").as_str() {
        "machine" => ("its machine is given to nobody until it is clean", "gpuaas node list"),
        _ => (
            "a slot that it had used is in quarantine until it is wiped with proof",
            "gpuaas slot list --state quarantined",
        ),
    };
    Done::of(format!(
        "{who}: its tenant has nothing any more and pays nothing; {what}"
    ))
    .next(next)
}

pub(super) fn retried(seen: &Value) -> Done {
    Done::of(format!("the stuck step of {} is tried again", named(seen))).next(command("watch", seen))
}

pub(super) fn extended(seen: &Value, now: Timestamp) -> Done {
    match time_at(seen, "ends_at") {
        Some(end) => Done::of(format!(
            "{} ends in {}, at {end}",
            named(seen),
            text::left(end.since_ms(now))
        )),
        None => Done::of(format!(
            "{} has no end any more: it lasts until it is released",
            named(seen)
        )),
    }
}

pub(super) fn repaired(seen: &Value) -> Done {
    let done = Done::of(format!(
        "the account {} of {} is being made once more; what is there stays",
        word(seen, "default_username"),
        named(seen)
    ));
    done.next(command("show", seen))
}

pub(super) fn rebooting(seen: &Value) -> Done {
    Done::of(format!("{} is being switched off and on", named(seen))).next(command("show", seen))
}

pub(super) fn stopping(seen: &Value) -> Done {
    let what = format!(
        "{} is being switched off: it keeps its slots and stays charged",
        named(seen)
    );
    Done::of(what).next(command("show", seen))
}

pub(super) fn starting(seen: &Value) -> Done {
    Done::of(format!("{} is being switched on", named(seen))).next(command("show", seen))
}
