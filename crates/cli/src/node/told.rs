//! What is said after a verb: what became of the node, and what to type next. The state is the server's, not the wish.

use serde_json::Value;

use crate::output::column::{SIMULATED, is_simulated};
use crate::output::{Done, text};

fn word(node: &Value, place: &str) -> String {
    text::plain(node.get(place).and_then(Value::as_str).unwrap_or_default())
}

fn who(node: &Value) -> String {
    let label = if is_simulated(node) { SIMULATED } else { "" };
    format!("{} {label}", word(node, "name")).trim_end().to_owned()
}

/// `rest` is a verb that the name is put behind.
fn next(done: Done, rest: &str, node: &Value) -> Done {
    done.next(format!("gpuaas node {rest} {}", word(node, "name")))
}

pub(super) fn drained(node: &Value) -> Done {
    let done = Done::of(match word(node, "state").as_str() {
        "drained" => format!(
            "{} is drained: nobody has anything of it, and nothing is given out",
            who(node)
        ),
        state => format!(
            "{} is {state}: nothing new is given out, what tenants have stays until it is released",
            who(node)
        ),
    });
    next(done, "undrain", node)
}

pub(super) fn undrained(node: &Value) -> Done {
    let done = Done::of(format!(
        "{} was asked to come back: it is {} until a probe succeeds and a discovery finds what was approved",
        who(node),
        word(node, "state")
    ));
    next(done, "show", node)
}

pub(super) fn mode(node: &Value) -> Done {
    match word(node, "mode").as_str() {
        "slice" => next(
            Done::of(format!("{} is rented out as slices from now on", who(node))),
            "discover",
            node,
        ),
        mode => Done::of(format!("{} is rented out as one {mode} from now on", who(node))),
    }
}

pub(super) fn quarantined(node: &Value) -> Done {
    let done = Done::of(format!(
        "{} is {}: no new tasks, what runs on it goes on",
        who(node),
        word(node, "state")
    ));
    next(done, "unquarantine", node)
}

pub(super) fn unquarantined(node: &Value) -> Done {
    let done = Done::of(format!(
        "{} is no longer quarantined: it is {}, and ready once a probe succeeds",
        who(node),
        word(node, "state")
    ));
    next(done, "show", node)
}

pub(super) fn removed(node: &Value) -> Done {
    Done::of(format!(
        "{} is removed: its certificates are revoked, its name is free",
        who(node)
    ))
}
