//! A node as people see it: never a bare "waiting", always why, since when, and what to do.

use base::http::{Answer, ApiError};
use model::api::{CertificateView, NodeCondition, NodeView, Waiting};
use model::signal::Code;
use model::state::NodeState;

use super::NodeRow;
use crate::certificate::store::CertificateRow;
use crate::held::{self, HeldRow};
use crate::presence::Told;

pub fn view(row: NodeRow, certificate: Option<CertificateRow>, held: Option<&HeldRow>) -> Answer<NodeView> {
    let state = row.state()?;
    let condition = condition(&row);
    let differs = || held::waiting(held.filter(|_| state != NodeState::Removed)?, &row.name, None);
    Ok(NodeView {
        waiting: waiting(&row, state)
            .or_else(|| troubled(condition.as_ref(), state))
            .or_else(differs),
        held: held.and_then(|held| held::node_view(held, &row.name)),
        condition,
        id: row.id(),
        state,
        state_since: row.state_since.into(),
        state_reason: row.state_reason,
        mode: row.mode.parse().map_err(ApiError::internal)?,
        simulated: row.simulated,
        epoch: row.epoch as u64,
        facts: read(row.facts)?,
        hardware: read(row.hardware)?,
        versions: row.versions.map(read).transpose()?,
        task_types: read(row.task_types)?,
        manifest_version: row.manifest_version.map(|v| v as u64),
        last_seen_at: row.last_seen_at.map(Into::into),
        // Written by an older or newer release, it may have another shape; then there is none to show.
        last_probe: row.last_probe.and_then(|json| serde_json::from_value(json).ok()),
        last_probe_at: row.last_probe_at.map(Into::into),
        self_probe: row.self_probe.and_then(|json| serde_json::from_value(json).ok()),
        certificate: certificate.map(certificate_view),
        created_at: row.created_at.into(),
        version: row.version,
        name: row.name,
    })
}

fn waiting(row: &NodeRow, state: NodeState) -> Option<Waiting> {
    let (reason, verb) = match state {
        NodeState::Enrolling if row.epoch == 0 => (
            "the host has not enrolled yet",
            format!("gpuaas node enroll {}", row.name),
        ),
        NodeState::Enrolling => (
            "a health probe has to succeed",
            format!("gpuaas node probe {}", row.name),
        ),
        NodeState::Stale => (
            "nothing was heard from its agent",
            format!("gpuaas node show {}", row.name),
        ),
        NodeState::Quarantined if row.is_cloned() => (
            "two machines use its identity",
            format!("gpuaas node enroll {}", row.name),
        ),
        NodeState::Quarantined => (
            "an operator has to look at it",
            format!("gpuaas node unquarantine {}", row.name),
        ),
        NodeState::Draining | NodeState::Drained if row.return_asked_at.is_some() => (
            "a probe has to succeed and a discovery has to find what was approved",
            format!("gpuaas task list --node {}", row.name),
        ),
        NodeState::Draining => (
            "what tenants have of it has to be released",
            format!("gpuaas slot list --node {}", row.name),
        ),
        NodeState::Ready | NodeState::Drained | NodeState::Removed => return left_over(row),
    };
    Some(Waiting {
        reason: reason.to_owned(),
        since: row.state_since.into(),
        verb,
    })
}

/// A machine that nobody gets, whatever else is well with it.
fn left_over(row: &NodeRow) -> Option<Waiting> {
    Some(Waiting {
        reason: "the account of its last tenant has to be proved absent".to_owned(),
        since: row.left_over_since?.into(),
        verb: format!("gpuaas node clean {}", row.name),
    })
}

fn condition(row: &NodeRow) -> Option<NodeCondition> {
    // Of another release it may have another shape; then there is none to show.
    let told: Told = serde_json::from_value(row.condition.clone()?).ok()?;
    let trouble: Option<Code> = row.trouble.as_deref().and_then(|code| code.parse().ok());
    Some(NodeCondition {
        told_at: row.condition_at?.into(),
        results_pending: told.results_pending,
        disk: told.disk,
        trouble,
        trouble_since: trouble.and(row.trouble_since).map(Into::into),
        recovery: trouble.map(|code| code.recovery().to_owned()),
    })
}

/// A node that is there and takes nothing: whoever waits for it waits for this.
fn troubled(condition: Option<&NodeCondition>, state: NodeState) -> Option<Waiting> {
    let condition = condition.filter(|_| state != NodeState::Removed)?;
    let code = condition.trouble?;
    Some(Waiting {
        reason: format!("takes no tasks: {}", code.meaning()),
        since: condition.trouble_since.unwrap_or(condition.told_at),
        verb: format!("gpuaas explain {code}"),
    })
}

pub(super) fn certificate_view(row: CertificateRow) -> CertificateView {
    CertificateView {
        serial: row.serial,
        kind: row.kind,
        generation: row.generation as u64,
        epoch: row.epoch.unwrap_or(0) as u64,
        not_before: row.not_before.into(),
        not_after: row.ends_at.map_or(row.not_after, |at| at.min(row.not_after)).into(),
        first_used_at: row.first_used_at.map(Into::into),
        revoked_at: row.revoked_at.map(Into::into),
    }
}

fn read<T: for<'de> serde::Deserialize<'de>>(json: serde_json::Value) -> Answer<T> {
    serde_json::from_value(json).map_err(ApiError::internal)
}
