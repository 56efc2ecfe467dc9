//! The switches of a slice as part of its history: when each was asked for and by whom, and when its node had done it or
//! why it had not. They are no moves, so they are told with the state that it was in.

use std::collections::BTreeMap;

use base::http::{Answer, ApiError};
use model::api::{SwitchStep, SwitchView, TransitionView};
use model::id::derive_op;
use model::intent::Wish;
use model::signal::Code;
use model::state::{AllocationState, TaskState};
use model::task::TaskType;
use model::task::vm_power::Action;
use model::time::Timestamp;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::store::AllocationRow;

/// So many of the last wishes are told of.
const MOST: u32 = 200;
/// Whose word it is that it was done. Tenants see no node.
const NODE: &str = "system:node";

#[derive(Clone, Debug, sqlx::FromRow)]
struct Row {
    op_id: Uuid,
    state: String,
    code: Option<String>,
    detail: Option<String>,
    actor_ref: String,
    correlation_id: Uuid,
    created_at: OffsetDateTime,
    ended_at: Option<OffsetDateTime>,
    wish: Vec<u8>,
}

/// Moves and switches as they came, oldest first.
pub(super) async fn among(
    pool: &PgPool,
    row: &AllocationRow,
    moves: Vec<TransitionView>,
) -> Answer<Vec<TransitionView>> {
    let last = row.generation.unsigned_abs();
    let ops: Vec<Uuid> = (last.saturating_sub(MOST).max(1)..last)
        .map(|before| derive_op(row.id(), TaskType::VmPower.as_str(), before + 1).uuid())
        .collect();
    if ops.is_empty() {
        return Ok(moves);
    }
    let tasks: Vec<Row> = sqlx::query_as(
        "select t.op_id, t.state, t.code, t.detail, t.actor_ref, t.correlation_id, t.created_at, t.ended_at, i.wish
         from task t join intent i on i.sha256 = t.intent_sha256 where t.op_id = any($1) order by t.issue",
    )
    .bind(ops)
    .fetch_all(pool)
    .await?;
    // One that was issued again under another key was asked for once, and ends with its last task.
    let mut switches: BTreeMap<Uuid, (Row, Row)> = BTreeMap::new();
    for task in tasks {
        switches
            .entry(task.op_id)
            .and_modify(|(_, last)| last.clone_from(&task))
            .or_insert_with(|| (task.clone(), task.clone()));
    }
    let mut lines = Vec::new();
    for (first, last) in switches.values() {
        lines.extend(told(&moves, first, last)?);
    }
    // What came in the same moment stays in its order.
    lines.sort_by_key(|one| one.at);
    Ok(merged(moves, lines))
}

/// Moves stay in their order, whatever their clocks said; each line comes after the last move that is no younger.
fn merged(moves: Vec<TransitionView>, lines: Vec<TransitionView>) -> Vec<TransitionView> {
    let places: Vec<usize> = lines
        .iter()
        .map(|line| moves.iter().rposition(|one| one.at <= line.at).map_or(0, |at| at + 1))
        .collect();
    let mut all = Vec::with_capacity(moves.len() + lines.len());
    let mut lines = places.into_iter().zip(lines).peekable();
    for (place, one) in moves.into_iter().enumerate() {
        while let Some((_, line)) = lines.next_if(|(at, _)| *at <= place) {
            all.push(line);
        }
        all.push(one);
    }
    all.extend(lines.map(|(_, line)| line));
    all
}

fn told(moves: &[TransitionView], first: &Row, last: &Row) -> Answer<Vec<TransitionView>> {
    let action = match serde_json::from_slice(&first.wish).map_err(ApiError::internal)? {
        Wish::Power { params, .. } => params.action,
        Wish::Machine { .. } | Wish::Slice { .. } | Wish::Wipe { .. } => return Ok(Vec::new()),
    };
    let line = |at: OffsetDateTime, step, reason: String, actor: &str, code: Option<Code>| {
        let at = Timestamp::from(at);
        let state = state_at(moves, at);
        TransitionView {
            from: Some(state),
            to: state,
            at,
            reason,
            actor: actor.to_owned(),
            code,
            correlation_id: first.correlation_id.to_string(),
            switch: Some(SwitchView { action, step }),
        }
    };
    let word = match action {
        Action::Reboot => "reboot",
        Action::Stop => "stop",
        Action::Start => "start",
    };
    let asked = format!("{word} asked");
    let mut lines = vec![line(first.created_at, SwitchStep::Asked, asked, &first.actor_ref, None)];
    let Some(ended_at) = last.ended_at else {
        return Ok(lines);
    };
    let code = last.code.as_deref().and_then(|code| code.parse().ok());
    let state: TaskState = last.state.parse().map_err(ApiError::internal)?;
    lines.push(match state {
        TaskState::Succeeded => line(ended_at, SwitchStep::Done, format!("{word} done"), NODE, None),
        TaskState::Failed
        | TaskState::Expired
        | TaskState::Cancelled
        | TaskState::Queued
        | TaskState::Dispatched
        | TaskState::Started
        | TaskState::Unknown => {
            let why = last
                .detail
                .as_deref()
                .or(last.code.as_deref())
                .unwrap_or(state.as_str());
            line(
                ended_at,
                SwitchStep::Failed,
                format!("{word} failed: {why}"),
                NODE,
                code,
            )
        }
    });
    Ok(lines)
}

/// Where it was at that time.
fn state_at(moves: &[TransitionView], at: Timestamp) -> AllocationState {
    let before = moves.iter().rev().find(|one| one.at <= at);
    before.map_or(AllocationState::Active, |one| one.to)
}
