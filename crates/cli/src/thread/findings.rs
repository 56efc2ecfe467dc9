//! What a task brought back, for a person: a probe's figures, a discovery's slots and what stands in their way.

use model::task::{health_probe, topology_discover};
use serde_json::Value;

use crate::failure::Failure;
use crate::output::column::{Kind, View, extra, find};
use crate::output::{Format, Out, text};
use crate::slot;

/// What `diag.health_probe` found.
pub(crate) const FINDINGS: View = View {
    columns: &[
        extra("kernel", "kernel_version", Kind::Text),
        extra("memory_free", "free_memory_mib", Kind::Mib),
        extra("root_free", "root_free_bytes", Kind::Bytes),
        extra("kvm", "kvm_present", Kind::Text),
        extra("vfio", "vfio_modules", Kind::Text),
        extra("gpus", "gpus.model", Kind::Tally),
        extra("gpu_drivers", "gpus.driver", Kind::Tally),
        extra("links", "fabric_links.name", Kind::Text),
        extra("links_up", "fabric_links.up", Kind::Tally),
        extra("state_writable", "state_writable", Kind::Text),
        extra("journal_used_pct", "journal_used_pct", Kind::Text),
        extra("clock_skew_ms", "clock_skew_ms", Kind::Text),
    ],
    key: "kernel_version",
};

/// As a page or as lines; what has no page of its own is shown as it came.
pub(super) fn show(out: &mut Out, task_type: &str, output: &Value) -> Result<(), Failure> {
    if out.format == Format::Table {
        out.line("")?;
    }
    if task_type == health_probe::SPEC.name {
        return out.record(&FINDINGS, output);
    }
    if task_type == topology_discover::SPEC.name {
        return topology(out, output);
    }
    out.line(&format!("output\t{}", text::json(output, false)))
}

fn topology(out: &mut Out, output: &Value) -> Result<(), Failure> {
    let slots = find(output, "candidate_slots");
    out.list(&slot::CANDIDATES, &serde_json::json!({ "items": slots, "next": null }))?;
    let summary = find(output, "candidate_summary");
    slot::show_obstacles(out, std::slice::from_ref(&summary))?;
    let count = |place: &str| summary.get(place).and_then(Value::as_u64).unwrap_or_default();
    let blockers = summary.get("blockers").and_then(Value::as_array).map_or(0, Vec::len);
    out.note(&format!(
        "{} of {} slots could be rented out, {blockers} blockers; gpuaas slot approve puts slots into service",
        count("schedulable"),
        count("slots")
    ))
}
