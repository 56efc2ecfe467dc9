//! Asking for a task. This is the only place that signs one, inside the asker's transaction, after every rule has
//! been asked: is the node there, can it do this, is there room, and does a signed intent cover it.

use base::Change;
use base::http::{Answer, ApiError};
use model::digest::Sha256;
use model::envelope::{MAX_START_S, TaskPayload};
use model::id::{NodeId, OpId, TaskId, derive_node_op, derive_task};
use model::signal::Code;
use model::state::{NodeMode, NodeState, TaskState};
use model::task::{Task, TaskType, TypeVersions, health_probe, topology_discover};
use serde_json::json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::TaskRow;
use super::store::{self, Standing};
use crate::Fleet;
use crate::image;
use crate::intent;
use crate::metrics::TASKS_ENQUEUED;
use crate::node::{NodeRow, state};
use crate::slot;

/// Requests for a probe within this time share one task.
const SHARE_PROBE_S: i64 = 10;

/// What allows a task.
#[derive(Clone, Copy, Debug)]
pub enum Cover {
    /// It only looks; nobody's wish is needed.
    Observes,
    /// A person's wish, as the API signed it. The operation must be the one that it allows.
    Intent { sha256: Sha256, op: OpId },
}

#[derive(Clone, Debug)]
pub struct Ask {
    pub node: NodeId,
    pub task: Task,
    pub cover: Cover,
}

/// What became of the asking.
pub struct Asked {
    pub id: TaskId,
    /// As it was written; nothing where an earlier task is shared.
    fresh: Option<TaskRow>,
}

impl Asked {
    fn shared(id: Uuid) -> Self {
        Self {
            id: id.into(),
            fresh: None,
        }
    }

    /// The task as it stands in this change; read only where it was not just written.
    pub async fn row(self, change: &mut Change) -> Answer<TaskRow> {
        match self.fresh {
            Some(row) => Ok(row),
            None => Ok(store::get(change.conn(), self.id).await?.ok_or(Code::NotFound)?),
        }
    }
}

/// Signs and queues a task, or finds the one of the same operation that is still under way or has done it.
pub async fn enqueue(fleet: &Fleet, change: &mut Change, ask: &Ask) -> Answer<TaskId> {
    let row = state::lock(change, ask.node).await?;
    Ok(enqueue_on(fleet, change, &row, ask, None).await?.id)
}

/// The same with the node's row, locked in this change and not changed since; and with how things stand, where that was
/// seen under the same lock.
async fn enqueue_on(
    fleet: &Fleet,
    change: &mut Change,
    row: &NodeRow,
    ask: &Ask,
    standing: Option<Standing>,
) -> Answer<Asked> {
    let spec = ask.task.task_type().spec();
    may_take(fleet, row, ask.task.task_type())?;
    let mut counters = Counters::of(row);
    let (op, intent_sha256) = match ask.cover {
        Cover::Observes if !spec.changes_host => (counters.next_op(ask.node, spec.name), None),
        Cover::Observes => return Err(Code::IntentMissing.into()),
        Cover::Intent { sha256, op } => {
            intent::allows(fleet, change, sha256, op, &ask.task, ask.node).await?;
            (op, Some(sha256))
        }
    };
    let asked = Again {
        op,
        actor_ref: change.actor().reference(),
        correlation_id: change.actor().correlation_id,
    };
    let draft = Draft {
        row,
        counters,
        intent_sha256,
        asked,
        standing,
    };
    issue(fleet, change, ask, draft).await
}

/// Whose wish a task is, and which operation.
pub(super) struct Again {
    pub(super) op: OpId,
    pub(super) actor_ref: String,
    pub(super) correlation_id: Uuid,
}

/// The next task of an operation whose last one has ended without an effect, for the same people. The same rules.
pub(super) async fn issue_again(fleet: &Fleet, change: &mut Change, ask: &Ask, asked: Again) -> Answer<TaskId> {
    let row = state::lock(change, ask.node).await?;
    let spec = ask.task.task_type().spec();
    may_take(fleet, &row, ask.task.task_type())?;
    let intent_sha256 = match ask.cover {
        Cover::Observes if !spec.changes_host => None,
        Cover::Observes => return Err(Code::IntentMissing.into()),
        Cover::Intent { sha256, op } => {
            intent::allows(fleet, change, sha256, op, &ask.task, ask.node).await?;
            Some(sha256)
        }
    };
    let draft = Draft {
        counters: Counters::of(&row),
        row: &row,
        intent_sha256,
        asked,
        standing: None,
    };
    Ok(issue(fleet, change, ask, draft).await?.id)
}

/// All that is decided about a task before it is signed.
struct Draft<'a> {
    row: &'a NodeRow,
    counters: Counters,
    intent_sha256: Option<Sha256>,
    asked: Again,
    standing: Option<Standing>,
}

async fn issue(fleet: &Fleet, change: &mut Change, ask: &Ask, draft: Draft<'_>) -> Answer<Asked> {
    let Draft {
        row,
        mut counters,
        intent_sha256,
        asked,
        standing,
    } = draft;
    let (op, spec) = (asked.op, ask.task.task_type().spec());
    let standing = match standing {
        Some(standing) => standing,
        None => store::standing(change.conn(), ask.node, op, row.epoch).await?,
    };
    if let Some(task) = standing.task {
        return Ok(Asked::shared(task));
    }
    if standing.queued >= fleet.limits.queue_most {
        return Err(Code::NodeQueueFull.into());
    }
    listed(fleet, change, &ask.task).await?;
    let task_id = derive_task(op, standing.issues as u32);
    let payload = TaskPayload {
        v: 1,
        aud: fleet.app.installation,
        task_id,
        op_id: op,
        intent_sha256,
        node_id: ask.node,
        node_epoch: row.epoch as u64,
        seq: counters.next_seq(),
        task_type: spec.name.to_owned(),
        type_version: spec.version,
        issued_at: change.at(),
        start_by: change.at().plus_s(MAX_START_S),
        max_runtime_s: spec.max_runtime_s,
        actor_ref: asked.actor_ref,
        correlation_id: asked.correlation_id,
        params: ask.task.params(),
    };
    let slots = slot::admit(change, ask.node, &ask.task, op).await?;
    let fresh = insert(fleet, change, row, &payload, slots, counters).await?;
    metrics::counter!(TASKS_ENQUEUED, "type" => spec.name).increment(1);
    Ok(Asked {
        id: task_id,
        fresh: Some(fresh),
    })
}

/// Nodes refuse an image that operators have not listed; so nobody has to wait for that.
async fn listed(fleet: &Fleet, change: &mut Change, task: &Task) -> Answer<()> {
    let Task::VmProvision(params) = task else { return Ok(()) };
    let lists = |images: &image::Published| images.catalogue().is_some_and(|known| known.lists(params).is_some());
    // It may have been listed a moment ago, by way of another replica.
    if params.image_trusted || lists(&fleet.images()) || lists(&image::newest(fleet, change.conn()).await?) {
        return Ok(());
    }
    let why = format!(
        "{} is not listed with digest {}",
        params.image_path, params.image_sha256
    );
    Err(ApiError::new(Code::ImageNotListed).message(why))
}

/// A health probe of this node; one that is under way and young is shared.
pub async fn enqueue_probe(fleet: &Fleet, change: &mut Change, node: NodeId) -> Answer<Asked> {
    let row = state::lock(change, node).await?;
    let young = change.at().plus_s(-SHARE_PROBE_S);
    // Its operation is a new one by the node's counter, so there is nothing else to look for.
    let standing = store::young_probe(change.conn(), node, young).await?;
    if let Some(open) = standing.task {
        return Ok(Asked::shared(open));
    }
    let task = Task::HealthProbe(health_probe::Params {});
    let cover = Cover::Observes;
    enqueue_on(fleet, change, &row, &Ask { node, task, cover }, Some(standing)).await
}

/// A discovery of this node; one that is under way is shared.
pub async fn enqueue_discovery(fleet: &Fleet, change: &mut Change, node: NodeId) -> Answer<TaskId> {
    let row = state::lock(change, node).await?;
    if let Some(open) = store::open_discovery(change.conn(), node).await? {
        return Ok(open.into());
    }
    let task = Task::TopologyDiscover(topology_discover::Params {});
    let cover = Cover::Observes;
    Ok(enqueue_on(fleet, change, &row, &Ask { node, task, cover }, None)
        .await?
        .id)
}

/// A discovery that begins after this moment: one that may have looked already is not shared.
pub async fn enqueue_later_discovery(fleet: &Fleet, change: &mut Change, node: NodeId) -> Answer<TaskId> {
    let row = state::lock(change, node).await?;
    if let Some(queued) = store::queued_discovery(change.conn(), node).await? {
        return Ok(queued.into());
    }
    let task = Task::TopologyDiscover(topology_discover::Params {});
    let cover = Cover::Observes;
    Ok(enqueue_on(fleet, change, &row, &Ask { node, task, cover }, None)
        .await?
        .id)
}

/// The node's counters as its locked row has them; what is drawn is written with the task.
#[derive(Clone, Copy)]
struct Counters {
    op: i64,
    seq: i64,
}

impl Counters {
    fn of(row: &NodeRow) -> Self {
        Self {
            op: row.op_counter,
            seq: row.task_seq,
        }
    }

    fn next_op(&mut self, node: NodeId, name: &str) -> OpId {
        self.op += 1;
        derive_node_op(node, name, self.op as u64)
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq as u64
    }
}

fn may_take(fleet: &Fleet, row: &NodeRow, task_type: TaskType) -> Answer<()> {
    let spec = task_type.spec();
    match row.state()? {
        NodeState::Quarantined => return Err(Code::NodeQuarantined.into()),
        NodeState::Removed => return Err(Code::NotFound.into()),
        NodeState::Ready => {}
        // To give a tenant something, a node has to have proved itself; to look at it or to take away, it need not.
        state @ (NodeState::Enrolling | NodeState::Draining | NodeState::Drained | NodeState::Stale) => {
            if task_type.gives() {
                return Err(ApiError::new(Code::NodeNotReady).message(format!("the node is {state}, not ready")));
            }
        }
    }
    if row.epoch == 0 || row.session_id.is_none() {
        return Err(ApiError::new(Code::NodeNotReady).message("the node has not opened a session since it enrolled"));
    }
    let wanted = match task_type {
        TaskType::ProvisionUser => Some((NodeMode::Machine, "accounts are made on nodes in machine mode only")),
        TaskType::VmProvision => Some((NodeMode::Slice, "slices are made on nodes in slice mode only")),
        TaskType::HealthProbe
        | TaskType::TopologyDiscover
        | TaskType::DeprovisionUser
        | TaskType::VmRelease
        | TaskType::VmPower => None,
    };
    if let Some((_, why)) = wanted.filter(|(mode, _)| row.mode != mode.as_str()) {
        return Err(ApiError::new(Code::ModeConflict).message(why));
    }
    if spec.changes_host && fleet.keyring().expired(fleet.app.clock.now()) {
        return Err(Code::ManifestExpired.into());
    }
    let announced: Vec<TypeVersions> = serde_json::from_value(row.task_types.clone()).map_err(ApiError::internal)?;
    if !announced
        .iter()
        .any(|t| t.task_type == spec.name && t.versions.contains(&spec.version))
    {
        let what = format!("its build has no {} version {}", spec.name, spec.version);
        return Err(ApiError::new(Code::NodeLacksTaskType).message(what));
    }
    Ok(())
}

async fn insert(
    fleet: &Fleet,
    change: &mut Change,
    node: &NodeRow,
    payload: &TaskPayload,
    slots: Option<Vec<Uuid>>,
    counters: Counters,
) -> Answer<TaskRow> {
    let keyring = fleet.keyring();
    let spec = payload.task_type.parse::<TaskType>()?.spec();
    let key = keyring.task_key(spec.purpose).ok_or(Code::SigningKeyMissing)?;
    let envelope = payload.sign(key);
    let signed = envelope.payload_unverified().map_err(ApiError::from)?;
    let payload_sha256 = Sha256::of(&signed);
    sqlx::query(
        "with counted as (
             update node set op_counter = $16, task_seq = $5,
                 probe_asked_at = case when $17 then $14 else probe_asked_at end,
                 probe_tries = probe_tries + case when $17 then 1 else 0 end
             where id = $3)
         insert into task (id, op_id, issue, node_id, node_epoch, seq, task_type, type_version, keyid, envelope,
                           payload_sha256, intent_sha256, state, actor_ref, correlation_id, created_at, start_by,
                           slots)
         values ($1, $2, (select count(*)::int from task where op_id = $2), $3, $4, $5, $6, $7, $8, $9,
                 $10, $11, 'queued', $12, $13, $14, $15, $18)",
    )
    .bind(payload.task_id.uuid())
    .bind(payload.op_id.uuid())
    .bind(payload.node_id.uuid())
    .bind(payload.node_epoch as i64)
    .bind(payload.seq as i64)
    .bind(&payload.task_type)
    .bind(payload.type_version as i32)
    .bind(key.keyid().to_string())
    .bind(envelope.to_bytes())
    .bind(payload_sha256.as_bytes().as_slice())
    .bind(payload.intent_sha256.map(|sha| sha.as_bytes().to_vec()))
    .bind(&payload.actor_ref)
    .bind(payload.correlation_id)
    .bind(OffsetDateTime::from(payload.issued_at))
    .bind(OffsetDateTime::from(payload.start_by))
    .bind(counters.op)
    .bind(payload.task_type == TaskType::HealthProbe.as_str())
    .bind(slots)
    .execute(change.conn())
    .await?;
    // The signature log: which key signed which bytes for which node, in the same transaction.
    change.also("task.enqueue", payload.task_id).detail(json!({
        "node": payload.node_id, "type": payload.task_type, "op": payload.op_id, "seq": payload.seq,
        "keyid": key.keyid(), "payload_sha256": payload_sha256, "intent_sha256": payload.intent_sha256,
    }));
    change.event(
        "task.queued",
        payload.task_id,
        json!({ "node_id": payload.node_id, "type": payload.task_type }),
    );
    change.call(payload.node_id);
    Ok(queued(node, payload, key.keyid().to_string(), payload_sha256))
}

/// The row that was just written, as a look at it would find it.
fn queued(node: &NodeRow, payload: &TaskPayload, keyid: String, payload_sha256: Sha256) -> TaskRow {
    TaskRow {
        id: payload.task_id.uuid(),
        op_id: payload.op_id.uuid(),
        node_id: node.id,
        node_name: node.name.clone(),
        simulated: node.simulated,
        node_state: node.state.clone(),
        node_state_reason: node.state_reason.clone(),
        node_epoch: node.epoch,
        task_type: payload.task_type.clone(),
        keyid,
        payload_sha256: payload_sha256.as_bytes().to_vec(),
        state: TaskState::Queued.as_str().to_owned(),
        phase: None,
        phase_since: None,
        done_bytes: None,
        of_bytes: None,
        fence: None,
        cancel_at: None,
        actor_ref: payload.actor_ref.clone(),
        correlation_id: payload.correlation_id,
        created_at: payload.issued_at.into(),
        start_by: payload.start_by.into(),
        dispatched_at: None,
        started_at: None,
        ended_at: None,
        lease_until: None,
        code: None,
        detail: None,
        timings: json!({}),
        undone: json!([]),
        output: None,
        result: None,
        version: 1,
    }
}
