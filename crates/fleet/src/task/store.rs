//! Rows of tasks, and the moves between their states that need no signature.

use base::Change;
use base::http::{ApiError, Page};
use model::dsse::Envelope;
use model::id::{NodeId, OpId, TaskId};
use model::node_api::Progress;
use model::state::TaskState;
use model::task::TaskType;
use model::time::Timestamp;
use sqlx::{PgConnection, PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct TaskRow {
    pub id: Uuid,
    pub op_id: Uuid,
    pub node_id: Uuid,
    pub node_name: String,
    pub simulated: bool,
    pub node_state: String,
    pub node_state_reason: Option<String>,
    pub node_epoch: i64,
    pub task_type: String,
    pub keyid: String,
    pub payload_sha256: Vec<u8>,
    pub state: String,
    pub phase: Option<String>,
    pub phase_since: Option<OffsetDateTime>,
    pub done_bytes: Option<i64>,
    pub of_bytes: Option<i64>,
    pub fence: Option<i64>,
    pub cancel_at: Option<OffsetDateTime>,
    pub actor_ref: String,
    pub correlation_id: Uuid,
    pub created_at: OffsetDateTime,
    pub start_by: OffsetDateTime,
    pub dispatched_at: Option<OffsetDateTime>,
    pub started_at: Option<OffsetDateTime>,
    pub ended_at: Option<OffsetDateTime>,
    pub lease_until: Option<OffsetDateTime>,
    pub code: Option<String>,
    pub detail: Option<String>,
    pub timings: serde_json::Value,
    pub undone: serde_json::Value,
    pub output: Option<serde_json::Value>,
    pub result: Option<Vec<u8>>,
    pub version: i64,
}

impl TaskRow {
    pub fn id(&self) -> TaskId {
        self.id.into()
    }

    pub fn state(&self) -> Result<TaskState, ApiError> {
        self.state.parse().map_err(ApiError::internal)
    }

    /// Of the phase it is in, as its node last said.
    pub fn progress(&self) -> Option<Progress> {
        Some(Progress {
            done_bytes: self.done_bytes?.try_into().ok()?,
            of_bytes: self.of_bytes?.try_into().ok()?,
        })
    }
}

macro_rules! select_task {
    ($rest:literal) => {
        select_task!("", concat!("join node n on n.id = t.node_id ", $rest))
    };
    ($more:literal, $from:expr) => {
        concat!(
            "select t.id, t.op_id, t.node_id, n.name as node_name, n.simulated, n.state as node_state, n.state_reason as node_state_reason, t.node_epoch, t.task_type, t.keyid, t.payload_sha256,
                    t.state, t.phase, t.phase_since, t.done_bytes, t.of_bytes, t.fence, t.cancel_at, t.actor_ref, t.correlation_id, t.created_at, t.start_by,
                    t.dispatched_at, t.started_at, t.ended_at, t.lease_until, t.code, t.detail, t.timings, t.undone,
                    t.output, t.result, t.version",
            $more,
            " from task t ",
            $from
        )
    };
}

pub async fn get(db: impl PgExecutor<'_>, id: TaskId) -> sqlx::Result<Option<TaskRow>> {
    sqlx::query_as(select_task!("where t.id = $1"))
        .bind(id.uuid())
        .fetch_optional(db)
        .await
}

pub async fn lock(change: &mut Change, id: TaskId) -> sqlx::Result<Option<TaskRow>> {
    sqlx::query_as(select_task!("where t.id = $1 for update of t"))
        .bind(id.uuid())
        .fetch_optional(change.conn())
        .await
}

/// A task of this node with what its node signs results by.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct OnNode {
    #[sqlx(flatten)]
    pub(super) task: TaskRow,
    pub(super) result_public: Option<Vec<u8>>,
}

/// Both locked in one look: the node first, then the task, in which order everybody locks.
pub(super) async fn lock_with_node(change: &mut Change, node: NodeId, id: TaskId) -> sqlx::Result<Option<OnNode>> {
    sqlx::query_as(concat!(
        "with n as materialized (
             select id, name, simulated, state, state_reason, result_public from node where id = $2 for update) ",
        select_task!(
            ", n.result_public",
            "join n on n.id = t.node_id where t.id = $1 for update of t"
        )
    ))
    .bind(id.uuid())
    .bind(node.uuid())
    .fetch_optional(change.conn())
    .await
}

/// All tasks of these operations, oldest first.
pub async fn of_ops(from: impl sqlx::PgExecutor<'_>, ops: &[Uuid]) -> sqlx::Result<Vec<TaskRow>> {
    sqlx::query_as(select_task!("where t.op_id = any($1) order by t.created_at, t.issue"))
        .bind(ops)
        .fetch_all(from)
        .await
}

/// What is queued on a node under one of these keys, in the order in which it was asked for.
pub(super) async fn queued_under(change: &mut Change, node: NodeId, keys: &[String]) -> sqlx::Result<Vec<TaskRow>> {
    sqlx::query_as(select_task!(
        "where t.node_id = $1 and t.state = 'queued' and t.keyid = any($2) order by t.seq for update of t"
    ))
    .bind(node.uuid())
    .bind(keys)
    .fetch_all(change.conn())
    .await
}

/// Was something else asked for under the same intent since? Then this one's time is over.
pub(super) async fn overtaken(conn: &mut PgConnection, row: &TaskRow) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "select exists (select from task t join task later on later.intent_sha256 = t.intent_sha256
                          and later.node_id = t.node_id and later.seq > t.seq and later.op_id <> t.op_id
                        where t.id = $1)",
    )
    .bind(row.id)
    .fetch_one(conn)
    .await
}

/// What a list is narrowed to.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub node: Option<NodeId>,
    pub state: Option<TaskState>,
    pub task_type: Option<String>,
}

pub async fn list(pool: &PgPool, filter: &Filter, page: &Page) -> sqlx::Result<Vec<TaskRow>> {
    let (at, id) = page.after_parts();
    sqlx::query_as(select_task!(
        "where ($1::uuid is null or t.node_id = $1) and ($2::text is null or t.state = $2)
           and ($3::text is null or t.task_type = $3)
           and ($4::timestamptz is null or (t.created_at, t.id) < ($4, $5))
         order by t.created_at desc, t.id desc limit $6"
    ))
    .bind(filter.node.map(|n| n.uuid()))
    .bind(filter.state.map(TaskState::as_str))
    .bind(&filter.task_type)
    .bind(at)
    .bind(id)
    .bind(page.fetch())
    .fetch_all(pool)
    .await
}

/// What an operation and its node's queue look like before a task is added. Look only under the node's lock.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Standing {
    /// The task of the operation that is under way, or that has done it in this epoch of its node: whoever asks again
    /// because the answer was lost hears of that one. An operation that ended otherwise may be tried again.
    pub task: Option<Uuid>,
    /// Tasks of this operation so far.
    pub issues: i64,
    /// Tasks of any operation that this node has not been given yet.
    pub queued: i64,
}

/// One look for all of it: each further one would be a way to the server and back under the node's lock.
pub async fn standing(conn: &mut PgConnection, node: NodeId, op: OpId, epoch: i64) -> sqlx::Result<Standing> {
    sqlx::query_as(
        "select (select id from task where op_id = $1
                   and (state in ('queued', 'dispatched', 'started', 'unknown') or (state = 'succeeded' and node_epoch = $3))
                 order by issue desc limit 1) as task,
                (select count(*) from task where op_id = $1) as issues,
                (select count(*) from task where node_id = $2 and state = 'queued') as queued",
    )
    .bind(op.uuid())
    .bind(node.uuid())
    .bind(epoch)
    .fetch_one(conn)
    .await
}

pub async fn open_count(conn: &mut PgConnection, node: NodeId) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "select count(*) from task where node_id = $1 and state in ('queued', 'dispatched', 'started', 'unknown')",
    )
    .bind(node.uuid())
    .fetch_one(conn)
    .await
}

/// A probe that is still under way and young enough to share, and how much waits there.
pub async fn young_probe(conn: &mut PgConnection, node: NodeId, after: Timestamp) -> sqlx::Result<Standing> {
    sqlx::query_as(
        // Two looks, each by its own small index, however many probes have ended lately.
        "select (select id from (
             select id, created_at from task
             where node_id = $1 and state = 'queued' and task_type = 'diag.health_probe' and created_at > $2
             union all
             select id, created_at from task
             where node_id = $1 and state in ('dispatched', 'started', 'unknown') and state <> 'unknown'
               and task_type = 'diag.health_probe' and created_at > $2) as young
         order by created_at desc limit 1) as task, 0::bigint as issues,
         (select count(*) from task where node_id = $1 and state = 'queued') as queued",
    )
    .bind(node.uuid())
    .bind(OffsetDateTime::from(after))
    .fetch_one(conn)
    .await
}

/// A discovery of this node that has not ended.
pub async fn open_discovery(conn: &mut PgConnection, node: NodeId) -> sqlx::Result<Option<Uuid>> {
    sqlx::query_scalar(
        "select id from task where node_id = $1 and task_type = $2 and state in ('queued', 'dispatched', 'started', 'unknown')
         order by seq desc limit 1",
    )
    .bind(node.uuid())
    .bind(TaskType::TopologyDiscover.as_str())
    .fetch_optional(conn)
    .await
}

/// One that no node has been given yet.
pub async fn queued_discovery(conn: &mut PgConnection, node: NodeId) -> sqlx::Result<Option<Uuid>> {
    sqlx::query_scalar(
        "select id from task where node_id = $1 and task_type = $2 and state = 'queued' order by seq desc limit 1",
    )
    .bind(node.uuid())
    .bind(TaskType::TopologyDiscover.as_str())
    .fetch_optional(conn)
    .await
}

/// The envelope in the row, as a node is or was given it. What is no envelope becomes one that no node accepts.
pub async fn handed_out(conn: &mut PgConnection, id: TaskId) -> sqlx::Result<Envelope> {
    let bytes: Vec<u8> = sqlx::query_scalar("select envelope from task where id = $1")
        .bind(id.uuid())
        .fetch_one(conn)
        .await?;
    Ok(readable(&bytes))
}

pub(super) fn readable(bytes: &[u8]) -> Envelope {
    Envelope::parse(bytes).unwrap_or_else(|_| Envelope {
        payload_type: String::new(),
        payload: String::new(),
        signatures: Vec::new(),
    })
}

/// Tasks of a node that somebody wants stopped and that have not ended.
pub async fn to_cancel(pool: &PgPool, node: NodeId) -> sqlx::Result<Vec<TaskId>> {
    let ids: Vec<Uuid> = sqlx::query_scalar(
        "select id from task where node_id = $1 and cancel_at is not null and state in ('dispatched', 'started', 'unknown')",
    )
    .bind(node.uuid())
    .fetch_all(pool)
    .await?;
    Ok(ids.into_iter().map(Into::into).collect())
}

/// Which of these are handed out and not known to have started?
pub async fn not_started(pool: &PgPool, ids: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar("select id from task where id = any($1) and state in ('dispatched', 'unknown') order by id")
        .bind(ids)
        .fetch_all(pool)
        .await
}
