//! What is shown of allocations.

use model::state::AllocationState;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::column::{Kind, View, col, extra, piped, seen, time_at};
use crate::output::{Format, Out, text};
use crate::thread;

pub(crate) const VIEW: View = View {
    columns: &[
        col("id", "id", Kind::Id),
        col("name", "name", Kind::Text),
        col("sku", "sku", Kind::Text),
        col("state", "state", Kind::Text),
        col("for", "state_since", Kind::Since),
        seen("power", "power", Kind::Text),
        col("node", "node_name", Kind::Named),
        col("address", "private_ip", Kind::Text),
        col("ends", "ends_at", Kind::Until),
        col("condition", "conditions.code", Kind::Text),
        piped("simulated", "simulated", Kind::Text),
        extra("reason", "state_reason", Kind::Text),
        extra("code", "code", Kind::Text),
        extra("detail", "detail", Kind::Text),
        extra("deadline", "deadline_at", Kind::Until),
        extra("asked", "asked.state", Kind::Text),
        extra("asked_since", "asked.since", Kind::Since),
        extra("asked_code", "asked.code", Kind::Text),
        extra("asked_detail", "asked.detail", Kind::Text),
        extra("user", "default_username", Kind::Text),
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
        extra("switch", "switch.action", Kind::Text),
        extra("step", "switch.step", Kind::Text),
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

/// Of one that was given back: what became of its disks, and where the proof is.
pub(super) fn wiped(out: &mut Out, document: &Value) -> Result<(), Failure> {
    let released = document.get("state").and_then(Value::as_str) == Some(AllocationState::Released.as_str());
    let slots = document.get("slot_ids").and_then(Value::as_array);
    if out.format != Format::Table || !released {
        return Ok(());
    }
    let wiped = document.get("wiped").and_then(Value::as_array);
    for slot in slots.into_iter().flatten().filter_map(Value::as_str) {
        let slot = text::plain(slot);
        let short = text::short_id(&slot);
        let proof = wiped.into_iter().flatten().find(|one| one["slot_id"] == slot.as_str());
        let Some(proof) = proof else {
            out.line(&format!("  {short} is not proved clean: nobody gets it until it is"))?;
            out.line(&format!("    see: gpuaas slot show {short}"))?;
            continue;
        };
        let method = text::plain(proof.get("method").and_then(Value::as_str).unwrap_or_default());
        let method = if method.is_empty() {
            method
        } else {
            format!(" by {method}")
        };
        let age = time_at(proof, "at").map(|at| text::age(out.now().since_ms(at)));
        let age = age.unwrap_or_default();
        out.line(&format!("  {short} was wiped{method} and proved clean, {age} ago"))?;
        out.line(&format!("    proof: gpuaas slot proof {short} (operators)"))?;
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
