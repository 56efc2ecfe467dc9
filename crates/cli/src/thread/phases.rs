//! The phases of a task in their order: which are done and how long each took, which one it is in, which one failed.

use serde_json::Value;

use crate::failure::Failure;
use crate::output::column::time_at;
#[cfg(test)]
use crate::output::column::{Kind, View, col};
use crate::output::{Format, Out, column, text};

#[cfg(test)]
pub(crate) const PHASES: View = View {
    columns: &[
        col("name", "name", Kind::Text),
        col("state", "state", Kind::Text),
        col("took", "took_ms", Kind::Text),
        col("progress", "progress", Kind::Text),
        col("within", "within_s", Kind::Text),
        col("since", "since", Kind::Since),
        col("deadline", "deadline_at", Kind::Until),
    ],
    key: "name",
};

fn phases(task: &Value) -> &[Value] {
    task.get("phases")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn word<'a>(phase: &'a Value, place: &str) -> &'a str {
    phase.get(place).and_then(Value::as_str).unwrap_or_default()
}

/// ` 16/17 readiness`, while it is in one.
pub(crate) fn running(task: &Value) -> Option<String> {
    let all = phases(task);
    let at = all.iter().position(|phase| word(phase, "state") == "running")?;
    let (name, far) = (text::plain(word(&all[at], "name")), far(&all[at]));
    Some(
        format!("{:>2}/{} {name} {far}", at + 1, all.len())
            .trim_end()
            .to_owned(),
    )
}

/// `12 MiB of 300 MiB`, where that is known.
fn far(phase: &Value) -> String {
    let bytes = |place: &str| phase.pointer(place).and_then(Value::as_u64);
    match (bytes("/progress/done_bytes"), bytes("/progress/of_bytes")) {
        (Some(done), Some(of)) => format!("{} of {}", column::bytes(done), column::bytes(of)),
        _ => String::new(),
    }
}

/// How far it is and since when, and how long that may be before somebody is told.
fn standing(out: &Out, phase: &Value) -> String {
    let (Some(since), Some(deadline)) = (time_at(phase, "since"), time_at(phase, "deadline_at")) else {
        return far(phase);
    };
    let age = text::age(out.now().since_ms(since));
    let of = text::age(deadline.since_ms(since));
    format!("{} for {age}, {of} at most", far(phase))
        .trim_start()
        .to_owned()
}

pub(crate) fn show(out: &mut Out, task: &Value) -> Result<(), Failure> {
    let all = phases(task);
    if !matches!(out.format, Format::Table | Format::Tsv) {
        return Ok(());
    }
    for (at, phase) in all.iter().enumerate() {
        let (name, state) = (text::plain(word(phase, "name")), text::plain(word(phase, "state")));
        let took = phase.get("took_ms").and_then(Value::as_i64);
        let line = match out.format {
            Format::Tsv => {
                let took = took.map(|ms| ms.to_string()).unwrap_or_default();
                let bytes = |place: &str| phase.pointer(place).map(Value::to_string).unwrap_or_default();
                let (done, of) = (bytes("/progress/done_bytes"), bytes("/progress/of_bytes"));
                let (since, deadline) = (
                    text::plain(word(phase, "since")),
                    text::plain(word(phase, "deadline_at")),
                );
                format!(
                    "phase\t{}\t{name}\t{state}\t{took}\t{done}\t{of}\t{since}\t{deadline}",
                    at + 1
                )
            }
            _ => {
                let took = took.map_or_else(|| standing(out, phase), text::span);
                format!(" {:>2}/{} {name:<25}{:<9}{took:>7}", at + 1, all.len(), mark(&state))
                    .trim_end()
                    .to_owned()
            }
        };
        out.line(&line)?;
    }
    Ok(())
}

/// A word beside the sign: a sign alone says little.
fn mark(state: &str) -> String {
    match state {
        "done" => "✓".to_owned(),
        "waiting" => "·".to_owned(),
        "running" => "… now".to_owned(),
        "failed" => "✗ failed".to_owned(),
        "cancelled" => "– taken back".to_owned(),
        other => other.to_owned(),
    }
}
