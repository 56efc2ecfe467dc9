//! Tasks as operators see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Waiting;
use crate::id::{NodeId, OpId, TaskId};
use crate::node_api::Progress;
use crate::signal::Code;
use crate::state::TaskState;
use crate::time::Timestamp;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskView {
    pub id: TaskId,
    pub op_id: OpId,
    pub node_id: NodeId,
    pub node_name: String,
    /// The node below is pretended.
    pub simulated: bool,
    pub task_type: String,
    pub state: TaskState,
    pub waiting: Option<Waiting>,
    /// The step it is in, while it runs.
    pub phase: Option<String>,
    pub code: Option<Code>,
    pub detail: Option<String>,
    pub actor_ref: String,
    pub correlation_id: String,
    pub created_at: Timestamp,
    pub start_by: Timestamp,
    pub dispatched_at: Option<Timestamp>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// All it goes through, in order; empty for what is over in a moment.
    #[serde(default)]
    pub phases: Vec<PhaseView>,
    /// `<step>_ms`.
    pub timings: serde_json::Value,
    pub undone: Vec<String>,
    pub output: serde_json::Value,
    /// Grows with every change; `GET …?changed_since=N&wait_s=S` answers when it has passed N.
    pub version: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseView {
    pub name: String,
    pub state: PhaseState,
    /// Known once the task has ended.
    pub took_ms: Option<u64>,
    /// While it runs, of phases that can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// How long it may take before somebody is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_s: Option<u32>,
    /// While it runs: since when, as far as the platform has heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// While it runs: when its allocation is stuck in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PhaseState {
    Waiting,
    Running,
    Done,
    Failed,
    /// Done, and taken back after a later one failed.
    Undone,
    /// It was in this one when somebody took the task back.
    Cancelled,
}

/// `GET /v1/task-types`: the whole authority of a node, compiled in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskTypeView {
    #[serde(rename = "type")]
    pub task_type: String,
    pub version: u32,
    pub summary: String,
    pub purpose: String,
    pub max_runtime_s: u32,
    pub running_per_node: u32,
    pub changes_host: bool,
    pub destroys_data: bool,
}
