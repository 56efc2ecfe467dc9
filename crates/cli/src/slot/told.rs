//! What is said after a verb: what became of the slot, and what to type next.

use serde_json::Value;

use crate::output::column::{SIMULATED, is_simulated};
use crate::output::{Done, text};

fn word(slot: &Value, place: &str) -> String {
    text::plain(slot.get(place).and_then(Value::as_str).unwrap_or_default())
}

fn place(slot: &Value) -> String {
    let label = if is_simulated(slot) { SIMULATED } else { "" };
    format!("{} {label}", word(slot, "node_name")).trim_end().to_owned()
}

fn who(slot: &Value) -> String {
    format!("{} of {}", text::short_id(&word(slot, "id")), place(slot))
}

fn next(done: Done, verb: &str, slot: &Value) -> Done {
    done.next(format!("gpuaas slot {verb} {}", text::short_id(&word(slot, "id"))))
}

pub(super) fn approved(slots: &[Value]) -> Done {
    match slots {
        [] => Done::of("nothing was approved: there is no candidate that nothing stands in the way of")
            .next("gpuaas slot list --state candidate"),
        [one] => Done::of(format!("{} is approved and can be rented", who(one))).next("gpuaas sku list"),
        [first, ..] => {
            let same = slots
                .iter()
                .all(|slot| word(slot, "node_name") == word(first, "node_name"));
            let of = if same {
                format!(" of {}", place(first))
            } else {
                String::new()
            };
            Done::of(format!("{} slots{of} are approved and can be rented", slots.len())).next("gpuaas sku list")
        }
    }
}

pub(super) fn rejected(slot: &Value) -> Done {
    Done::of(format!("{} is {}: nobody gets it", who(slot), word(slot, "state")))
}

pub(super) fn quarantined(slot: &Value) -> Done {
    let done = Done::of(format!(
        "{} is {}: nobody gets it until it is wiped with proof",
        who(slot),
        word(slot, "state")
    ));
    next(done, "rewipe", slot)
}

pub(super) fn unreserved(slot: &Value) -> Done {
    next(
        Done::of(format!("{} was given back and is {}", who(slot), word(slot, "state"))),
        "show",
        slot,
    )
}

pub(super) fn disk_gone(slot: &Value) -> Done {
    let done = Done::of(format!(
        "the disk of {} is given up for good; a discovery proposes its other devices anew",
        who(slot)
    ));
    done.next(format!("gpuaas node discover {}", word(slot, "node_name")))
}
