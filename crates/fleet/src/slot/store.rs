//! Rows of slots. Whoever changes one holds its node's lock: the order in which everybody locks.

use base::http::{Answer, ApiError, Page};
use model::id::{NodeId, SlotId};
use model::signal::Code;
use model::state::{SlotState, TaskState};
use model::task::TaskType;
use model::task::slot::Slot;
use model::task::topology_discover::{Blocker, GpuDevice, Output};
use model::time::Timestamp;
use serde::de::DeserializeOwned;
use sqlx::{PgConnection, PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::lease::Wanted;

/// How long a slot may be on its way without a task before somebody has to look.
pub(crate) const UNTENDED_S: i64 = 300;
/// Before a slot that a provision failed on is looked at once more: at first, and at most.
const LOOK_AGAIN_S: f64 = 30.0;
const LOOK_AGAIN_MOST_S: f64 = 3600.0;

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct SlotRow {
    pub id: Uuid,
    pub node_id: Uuid,
    pub node_name: String,
    pub simulated: bool,
    pub slot_index: i32,
    pub pci_address: String,
    pub fabric_device: Option<String>,
    pub nvme_device: String,
    pub nvme_serial: String,
    pub nvme_wwn: String,
    pub nvme_size_bytes: i64,
    pub numa_node: Option<i32>,
    pub vcpu_count: i32,
    pub memory_mib: i64,
    pub mac_address: String,
    pub private_ip: String,
    pub gpu: serde_json::Value,
    pub baseline: Option<serde_json::Value>,
    pub blockers: serde_json::Value,
    pub warnings: serde_json::Value,
    pub fault: Option<String>,
    pub fault_detail: Option<String>,
    pub fault_since: Option<OffsetDateTime>,
    pub seen_at: OffsetDateTime,
    pub approved_at: Option<OffsetDateTime>,
    pub approved_by: Option<String>,
    pub state: String,
    pub state_since: OffsetDateTime,
    pub state_reason: Option<String>,
    pub lease_id: Option<Uuid>,
    pub dirty_op: Option<Uuid>,
    pub quarantine_no: Option<i64>,
    /// Its disk is gone for good, and so is the slot; its other devices may be another's.
    pub disk_gone_at: Option<OffsetDateTime>,
    pub created_at: OffsetDateTime,
    pub version: i64,
    /// Of the open lease.
    pub allocation_id: Option<Uuid>,
    pub quarantine_code: Option<String>,
    pub quarantine_reason: Option<String>,
    pub quarantine_since: Option<OffsetDateTime>,
    pub wiped_at: Option<OffsetDateTime>,
    /// The latest task about it since it is on its way in or out.
    pub last_task: Option<Uuid>,
    pub last_task_state: Option<String>,
    pub last_task_code: Option<String>,
    pub last_task_ended_at: Option<OffsetDateTime>,
}

/// What a column holds, as the type that wrote it.
fn read<T: DeserializeOwned>(json: &serde_json::Value) -> Option<T> {
    serde_json::from_value(json.clone()).ok()
}

impl SlotRow {
    pub fn id(&self) -> SlotId {
        self.id.into()
    }

    pub fn node(&self) -> NodeId {
        self.node_id.into()
    }

    pub fn state(&self) -> Answer<SlotState> {
        self.state.parse().map_err(ApiError::internal)
    }

    /// Does anybody rent it, or could they? Then its devices are nobody else's.
    pub fn counts(&self) -> Answer<bool> {
        Ok(self.state()?.in_service() && self.disk_gone_at.is_none())
    }

    /// On its way in or out, and no node has a task about it or will be given one. One that was promised a moment ago is
    /// about to be asked for.
    pub fn is_untended(&self, now: Timestamp) -> Answer<bool> {
        let moving = matches!(self.state()?, SlotState::Reserved | SlotState::Releasing);
        let task = self.last_task_state.as_deref().map(str::parse::<TaskState>);
        Ok(moving
            && match task {
                Some(state) => state.is_ok_and(TaskState::is_end),
                None => now.since_ms(self.state_since.into()) >= UNTENDED_S * 1000,
            })
    }

    /// None where another release wrote another shape.
    pub fn gpu(&self) -> Option<GpuDevice> {
        read(&self.gpu)
    }

    pub fn approved_gpu(&self) -> Option<GpuDevice> {
        self.baseline.as_ref().and_then(read)
    }

    pub fn blockers(&self) -> Vec<Blocker> {
        read(&self.blockers).unwrap_or_default()
    }

    pub fn warnings(&self) -> Vec<Blocker> {
        read(&self.warnings).unwrap_or_default()
    }

    /// As a signed task names it.
    pub fn as_signed(&self) -> Answer<Slot> {
        let parsed = || -> anyhow::Result<Slot> {
            Ok(Slot {
                slot_id: self.id(),
                slot_index: u32::try_from(self.slot_index)?,
                pci_address: self.pci_address.parse()?,
                fabric_device: self.fabric_device.as_deref().map(str::parse).transpose()?,
                nvme_device: self.nvme_device.parse()?,
                nvme_serial: self.nvme_serial.parse()?,
                nvme_wwn: self.nvme_wwn.parse()?,
                nvme_size_bytes: u64::try_from(self.nvme_size_bytes)?,
                // A host that does not say has one.
                numa_node: u32::try_from(self.numa_node.unwrap_or(0))?,
                vcpu_count: u32::try_from(self.vcpu_count)?,
                memory_mib: u64::try_from(self.memory_mib)?,
                mac_address: self.mac_address.parse()?,
                private_ip: self.private_ip.parse()?,
            })
        };
        parsed().map_err(ApiError::internal)
    }
}

macro_rules! select_slot {
    ($rest:literal) => {
        concat!(
            "select s.*, n.name as node_name, n.simulated, l.allocation_id, q.code as quarantine_code,
                    q.reason as quarantine_reason, q.since as quarantine_since,
                    (select max(created_at) from slot_proof p where p.slot_id = s.id and p.kind = 'wipe' and p.clean) as wiped_at,
                    w.last_task, w.last_task_state, w.last_task_code, w.last_task_ended_at
             from slot s join node n on n.id = s.node_id left join lease l on l.id = s.lease_id
             left join slot_quarantine q on q.no = s.quarantine_no
             left join lateral (
                 select t.id as last_task, t.state as last_task_state, t.code as last_task_code, t.ended_at as last_task_ended_at
                 from task t where s.state in ('reserved', 'releasing') and t.node_id = s.node_id and s.id = any(t.slots)
                   and t.created_at >= s.state_since
                 order by t.seq desc limit 1) w on true ",
            $rest
        )
    };
}

pub async fn get(pool: &PgPool, id: SlotId) -> sqlx::Result<Option<SlotRow>> {
    sqlx::query_as(select_slot!("where s.id = $1"))
        .bind(id.uuid())
        .fetch_optional(pool)
        .await
}

/// Of a node, in their order. Under the node's lock they stay as they are.
pub async fn of_node(from: impl PgExecutor<'_>, node: NodeId) -> sqlx::Result<Vec<SlotRow>> {
    sqlx::query_as(select_slot!("where s.node_id = $1 order by s.slot_index, s.id"))
        .bind(node.uuid())
        .fetch_all(from)
        .await
}

/// As many of a node's as are wanted, of those that nobody has and that would do, in their order; fewer if it has no more.
/// Close together: all of one root complex if one has enough, and then of the one with the fewest to spare, so that
/// large wishes still find theirs; else the largest first.
pub(super) async fn fitting(conn: &mut PgConnection, node: NodeId, wanted: &Wanted<'_>) -> sqlx::Result<Vec<SlotRow>> {
    sqlx::query_as(select_slot!(
        "where s.id in (
             select id from (
                 select f.id, f.slot_index, f.gpu ->> 'root_complex' as complex,
                        count(*) over (partition by f.gpu ->> 'root_complex') as free
                 from slot f
                 where f.node_id = $6 and f.state = 'free' and f.fault is null and slot_fits(f, $1, $2, $3, $4, $5)) fit
             order by free < $7, case when free < $7 then -free else free end, complex, slot_index, id limit $7)
         order by s.slot_index, s.id"
    ))
    .bind(wanted.gpu_model)
    .bind(wanted.vcpu)
    .bind(wanted.memory_mib)
    .bind(wanted.nvme_gib)
    .bind(wanted.fabric)
    .bind(node.uuid())
    .bind(i64::from(wanted.count))
    .fetch_all(conn)
    .await
}

/// These of a node's, in their order.
pub async fn these(conn: &mut PgConnection, node: NodeId, ids: &[Uuid]) -> sqlx::Result<Vec<SlotRow>> {
    sqlx::query_as(select_slot!(
        "where s.node_id = $1 and s.id = any($2) order by s.slot_index, s.id"
    ))
    .bind(node.uuid())
    .bind(ids)
    .fetch_all(conn)
    .await
}

/// What a list is narrowed to.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub node: Option<NodeId>,
    pub state: Option<SlotState>,
}

pub async fn list(pool: &PgPool, filter: &Filter, page: &Page) -> sqlx::Result<Vec<SlotRow>> {
    let (at, id) = page.after_parts();
    sqlx::query_as(select_slot!(
        "where ($1::uuid is null or s.node_id = $1) and ($2::text is null or s.state = $2) and n.state <> 'removed'
           and ($3::timestamptz is null or (s.created_at, s.id) < ($3, $4))
         order by s.created_at desc, s.id desc limit $5"
    ))
    .bind(filter.node.map(|node| node.uuid()))
    .bind(filter.state.map(SlotState::as_str))
    .bind(at)
    .bind(id)
    .bind(page.fetch())
    .fetch_all(pool)
    .await
}

/// On their way since before then, with no task that is still open; with when that began.
pub async fn untended(pool: &PgPool, before: Timestamp) -> sqlx::Result<Vec<(Uuid, OffsetDateTime)>> {
    sqlx::query_as(
        "select s.id, s.state_since from slot s where s.state in ('reserved', 'releasing') and s.state_since < $1
           and not exists (select from task t where t.node_id = s.node_id and s.id = any(t.slots)
                             and t.state in ('queued', 'dispatched', 'started', 'unknown'))
         order by s.id limit 500",
    )
    .bind(OffsetDateTime::from(before))
    .fetch_all(pool)
    .await
}

/// Ready nodes with a free slot that is given to nobody because a provision failed on it, and that nobody is about to look
/// at: the look that was asked for at once came to nothing, or could not be asked for. Each try waits twice as long.
pub async fn unlooked(from: impl PgExecutor<'_>, node: Option<NodeId>, now: Timestamp) -> sqlx::Result<Vec<Uuid>> {
    // These are what a look has found; another one by itself would find the same.
    let looked_at = [Code::SlotBlocked, Code::SlotDevicesChanged].map(Code::as_str);
    sqlx::query_scalar(
        "select f.node_id from (
             select s.node_id, min(s.fault_since) as since from slot s join node n on n.id = s.node_id
             where s.state = 'free' and s.fault <> all($2) and n.state = 'ready' and ($1::uuid is null or n.id = $1)
             group by s.node_id) f
         cross join lateral (
             select count(*) as tries, max(t.ended_at) as ended_at from task t
             where t.node_id = f.node_id and t.task_type = $3 and t.created_at >= f.since) t
         where greatest(f.since, t.ended_at) + least($5 * power(2, least(t.tries, 20)), $6) * interval '1 second' < $4
           and not exists (select from task o where o.node_id = f.node_id and o.task_type = $3
                             and o.state in ('queued', 'dispatched', 'started', 'unknown'))
         order by f.node_id limit 100",
    )
    .bind(node.map(|node| node.uuid()))
    .bind(looked_at)
    .bind(TaskType::TopologyDiscover.as_str())
    .bind(OffsetDateTime::from(now))
    .bind(LOOK_AGAIN_S)
    .bind(LOOK_AGAIN_MOST_S)
    .fetch_all(from)
    .await
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct ProofRow {
    pub no: i64,
    pub slot_id: Uuid,
    pub task_id: Uuid,
    pub op_id: Uuid,
    pub kind: String,
    pub subject: String,
    pub clean: bool,
    pub proof: serde_json::Value,
    pub created_at: OffsetDateTime,
    /// The signed result that it came with.
    pub result: Option<Vec<u8>>,
}

/// Newest first; a page goes on below a number.
pub async fn proofs(pool: &PgPool, slot: SlotId, page: &Page) -> sqlx::Result<Vec<ProofRow>> {
    let below = page.after.map(|(_, no)| no.as_u128() as i64);
    sqlx::query_as(
        "select p.*, t.result from slot_proof p join task t on t.id = p.task_id
         where p.slot_id = $1 and ($2::bigint is null or p.no < $2) order by p.no desc limit $3",
    )
    .bind(slot.uuid())
    .bind(below)
    .bind(page.fetch())
    .fetch_all(pool)
    .await
}

/// The latest discovery. One that another release wrote in another shape has to be made again.
pub async fn topology(pool: &PgPool, node: NodeId) -> sqlx::Result<Option<(Output, OffsetDateTime)>> {
    let row: Option<(serde_json::Value, OffsetDateTime)> =
        sqlx::query_as("select found, discovered_at from node_topology where node_id = $1")
            .bind(node.uuid())
            .fetch_optional(pool)
            .await?;
    Ok(row.and_then(|(found, at)| Some((read(&found)?, at))))
}
