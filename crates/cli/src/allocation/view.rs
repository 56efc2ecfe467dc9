//! What is shown of allocations.

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::column::{Kind, View, col, extra, piped};
use crate::output::{Format, Out, text};
use crate::thread;

pub(crate) const VIEW: View = View {
    columns: &[
        col("id", "id", Kind::Id),
        col("name", "name", Kind::Text),
        col("sku", "sku", Kind::Text),
        col("state", "state", Kind::Text),
        col("for", "state_since", Kind::Since),
        col("node", "node_name", Kind::Named),
        col("address", "private_ip", Kind::Text),
        col("ends", "ends_at", Kind::Until),
        col("condition", "conditions.code", Kind::Text),
        piped("simulated", "simulated", Kind::Text),
        extra("reason", "state_reason", Kind::Text),
        extra("code", "code", Kind::Text),
        extra("detail", "detail", Kind::Text),
        extra("deadline", "deadline_at", Kind::Until),
        extra("user", "default_username", Kind::Text),
        extra("power", "power", Kind::Text),
        extra("verbs", "verbs", Kind::Text),
        extra("rate", "rate_micro_per_hour", Kind::Price),
        extra("currency", "currency", Kind::Text),
        extra("sku_version", "sku_version", Kind::Text),
        extra("forced", "forced", Kind::Text),
        extra("project_id", "project_id", Kind::Id),
        extra("creator", "creator", Kind::Text),
        extra("slots", "slot_ids", Kind::Text),
        extra("operation_id", "operation_id", Kind::Id),
        extra("correlation_id", "correlation_id", Kind::Text),
        extra("age", "created_at", Kind::Since),
        extra("ended", "ended_at", Kind::Since),
        extra("version", "version", Kind::Text),
    ],
    key: "id",
};

pub(crate) const TRANSITIONS: View = View {
    columns: &[
        col("at", "at", Kind::Since),
        col("from", "from", Kind::Text),
        col("to", "to", Kind::Text),
        col("reason", "reason", Kind::Text),
        col("by", "actor", Kind::Text),
        col("code", "code", Kind::Text),
        extra("correlation_id", "correlation_id", Kind::Text),
    ],
    key: "at",
};

/// What wants somebody's eye: since when, whose it is and what to type.
pub(super) fn conditions(out: &mut Out, document: &Value) -> Result<(), Failure> {
    if out.format != Format::Table {
        return Ok(());
    }
    let all = document.get("conditions").and_then(Value::as_array);
    for condition in all.into_iter().flatten() {
        let word = |place: &str| text::plain(condition.get(place).and_then(Value::as_str).unwrap_or_default());
        let detail = match word("detail") {
            detail if detail.is_empty() => String::new(),
            detail => format!(": {detail}"),
        };
        out.line(&format!("  {}{detail} ({})", word("code"), word("owner")))?;
        out.line(&format!("    try: {}", word("verb")))?;
    }
    Ok(())
}

pub(super) fn phases(out: &mut Out, document: &Value) -> Result<(), Failure> {
    if matches!(out.format, Format::Json | Format::Name) {
        return out.json(document);
    }
    for half in ["provision", "release"] {
        let all = document.get(half).cloned().unwrap_or_default();
        if all.as_array().is_some_and(|all| !all.is_empty()) {
            out.line(half)?;
            thread::show_phases(out, &json!({ "phases": all }))?;
        }
    }
    Ok(())
}
