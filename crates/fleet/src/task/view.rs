//! A task as people see it.

use base::http::Answer;
use model::api::{PhaseState, PhaseView, TaskView, Waiting};
use model::state::{NodeState, TaskState};
use model::task::{Phase, TaskType};
use model::time::Timestamp;

use super::TaskRow;

pub fn view(row: TaskRow) -> Answer<TaskView> {
    let state = row.state()?;
    let phases = phases(&row, state);
    Ok(TaskView {
        waiting: waiting(&row, state),
        id: row.id(),
        op_id: row.op_id.into(),
        node_id: row.node_id.into(),
        node_name: row.node_name,
        simulated: row.simulated,
        task_type: row.task_type,
        state,
        phase: if state.is_end() { None } else { row.phase },
        code: row.code.as_deref().and_then(|code| code.parse().ok()),
        detail: row.detail,
        actor_ref: row.actor_ref,
        correlation_id: row.correlation_id.to_string(),
        created_at: row.created_at.into(),
        start_by: row.start_by.into(),
        dispatched_at: row.dispatched_at.map(Into::into),
        started_at: row.started_at.map(Into::into),
        ended_at: row.ended_at.map(Into::into),
        phases,
        timings: row.timings,
        undone: serde_json::from_value(row.undone).unwrap_or_default(),
        output: row.output.unwrap_or(serde_json::Value::Null),
        version: row.version,
    })
}

/// Where it is on its way, as far as is known: before its end only which phase it is in, at its end how long each took.
fn phases(row: &TaskRow, state: TaskState) -> Vec<PhaseView> {
    let names = row.task_type.parse::<TaskType>().map_or(&[][..], TaskType::phases);
    let undone: Vec<String> = serde_json::from_value(row.undone.clone()).unwrap_or_default();
    let since = row.phase_since.map(Timestamp::from);
    let took = |name: &str| {
        row.timings
            .get(format!("{name}_ms"))
            .and_then(serde_json::Value::as_u64)
    };
    let begun = |name: &str| took(name).is_some() || undone.iter().any(|step| step == name);
    let failed = names
        .iter()
        .rposition(|phase| begun(phase.name))
        .filter(|_| state.is_end() && state != TaskState::Succeeded);
    let current = row
        .phase
        .as_deref()
        .and_then(|phase| names.iter().position(|known| known.name == phase));
    let of = |(at, phase): (usize, &Phase)| {
        let name = phase.name;
        let is = match (state.is_end(), current) {
            // Whoever took it back knows: nothing has failed.
            (true, _) if failed == Some(at) && state == TaskState::Cancelled => PhaseState::Cancelled,
            (true, _) if failed == Some(at) => PhaseState::Failed,
            (true, _) if undone.iter().any(|step| step == name) => PhaseState::Undone,
            (true, _) if took(name).is_some() => PhaseState::Done,
            (false, Some(current)) if at < current => PhaseState::Done,
            (false, Some(current)) if at == current => PhaseState::Running,
            (true | false, _) => PhaseState::Waiting,
        };
        PhaseView {
            name: name.to_owned(),
            state: is,
            took_ms: took(name),
            progress: row.progress().filter(|_| is == PhaseState::Running),
            within_s: Some(phase.within_s),
            since: since.filter(|_| is == PhaseState::Running),
            deadline_at: since
                .filter(|_| is == PhaseState::Running)
                .map(|since| since.plus_s(i64::from(phase.within_s))),
        }
    };
    names.iter().enumerate().map(of).collect()
}

fn waiting(row: &TaskRow, state: TaskState) -> Option<Waiting> {
    let node = &row.node_name;
    let (reason, since, verb) = match state {
        TaskState::Queued if row.node_state == NodeState::Quarantined.as_str() => {
            let why = row.node_state_reason.as_deref().unwrap_or("no reason given");
            let reason = format!("the node is quarantined: {why}");
            return Some(Waiting {
                reason,
                since: row.created_at.into(),
                verb: format!("gpuaas node show {node}"),
            });
        }
        TaskState::Queued => (
            "the node has not asked for it yet",
            row.created_at,
            format!("gpuaas node show {node}"),
        ),
        TaskState::Dispatched => (
            "the node has it and has not said that it started",
            row.dispatched_at.unwrap_or(row.created_at),
            format!("gpuaas node show {node}"),
        ),
        TaskState::Started => (
            "it runs",
            row.started_at.unwrap_or(row.created_at),
            format!("gpuaas task cancel {}", row.id()),
        ),
        TaskState::Unknown => (
            "the node fell silent while it had the task; it is not given to anybody else",
            row.lease_until.unwrap_or(row.created_at),
            format!("gpuaas node show {node}"),
        ),
        TaskState::Succeeded | TaskState::Failed | TaskState::Expired | TaskState::Cancelled => return None,
    };
    Some(Waiting {
        reason: reason.to_owned(),
        since: since.into(),
        verb,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::*;

    /// A provisioning that has come into its second phase.
    fn row(state: TaskState) -> TaskRow {
        let at = OffsetDateTime::UNIX_EPOCH;
        let names: Vec<&str> = TaskType::VmProvision.phases().iter().map(|phase| phase.name).collect();
        TaskRow {
            id: Uuid::nil(),
            op_id: Uuid::nil(),
            node_id: Uuid::nil(),
            node_name: "a".to_owned(),
            simulated: true,
            node_state: NodeState::Ready.as_str().to_owned(),
            node_state_reason: None,
            node_epoch: 1,
            task_type: TaskType::VmProvision.as_str().to_owned(),
            keyid: String::new(),
            payload_sha256: Vec::new(),
            state: state.as_str().to_owned(),
            phase: None,
            phase_since: None,
            done_bytes: None,
            of_bytes: None,
            fence: Some(1),
            cancel_at: None,
            actor_ref: String::new(),
            correlation_id: Uuid::nil(),
            created_at: at,
            start_by: at,
            dispatched_at: Some(at),
            started_at: Some(at),
            ended_at: Some(at),
            lease_until: None,
            code: None,
            detail: None,
            timings: json!({ format!("{}_ms", names[0]): 1, format!("{}_ms", names[1]): 1 }),
            undone: json!([names[1], names[0]]),
            output: None,
            result: None,
            version: 1,
        }
    }

    #[test]
    fn what_was_taken_back_has_not_failed() {
        for (state, last) in [
            (TaskState::Cancelled, PhaseState::Cancelled),
            (TaskState::Failed, PhaseState::Failed),
        ] {
            let phases = phases(&row(state), state);
            let states: Vec<PhaseState> = phases.iter().take(3).map(|phase| phase.state).collect();
            assert_eq!(states, [PhaseState::Undone, last, PhaseState::Waiting]);
        }
    }
}
