//! Rows of allocations, their history, and which slots they were given.

use base::Change;
use base::http::{Answer, ApiError, Page};
use model::api::{SkuKind, WipedView};
use model::digest::Sha256;
use model::id::{AllocationId, NodeId, OpId, ProjectId, UserId, derive_op};
use model::intent::Wish;
use model::signal::Code;
use model::state::{AllocationState, TaskState};
use model::task::TaskType;
use model::time::Timestamp;
use serde::Deserialize;
use sqlx::types::Json;
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::project::quota;

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct AllocationRow {
    pub id: Uuid,
    pub project_id: Uuid,
    pub name: Option<String>,
    pub kind: String,
    pub sku_id: Uuid,
    pub sku_version: i32,
    pub sku_name: String,
    pub slots: i32,
    pub rate_micro_per_hour: i64,
    pub currency: String,
    pub creator_id: Uuid,
    pub creator_name: String,
    pub request: serde_json::Value,
    pub node_id: Uuid,
    pub node_name: String,
    pub node_state: String,
    pub node_state_since: OffsetDateTime,
    pub simulated: bool,
    pub intent_sha256: Vec<u8>,
    pub generation: i32,
    pub state: String,
    pub state_since: OffsetDateTime,
    pub state_reason: String,
    pub correlation_id: Uuid,
    pub deadline_at: Option<OffsetDateTime>,
    pub ends_at: Option<OffsetDateTime>,
    pub waiting_since: Option<OffsetDateTime>,
    pub waiting_code: Option<String>,
    pub stuck_since: Option<OffsetDateTime>,
    pub stuck_code: Option<String>,
    pub stuck_at: Option<String>,
    pub retried_at: Option<OffsetDateTime>,
    pub cancel_asked_at: Option<OffsetDateTime>,
    pub forced: bool,
    pub code: Option<String>,
    pub detail: Option<String>,
    pub power: Option<String>,
    pub power_wanted: Option<String>,
    pub power_task: Option<Uuid>,
    /// What became of that so far, seen in the same moment as the rest.
    pub asked: Option<Json<Asked>>,
    pub private_ip: Option<String>,
    pub default_username: Option<String>,
    pub created_at: OffsetDateTime,
    pub ended_at: Option<OffsetDateTime>,
    pub version: i64,
    pub slot_ids: Vec<Uuid>,
}

/// The task of a wish that came later.
#[derive(Clone, Debug, Deserialize)]
pub struct Asked {
    pub state: String,
    pub since_ms: i64,
    pub code: Option<String>,
    pub detail: Option<String>,
}

impl AllocationRow {
    /// What was wanted last was signed as done, and is not written down as its power yet.
    pub fn is_switched(&self) -> bool {
        let succeeded = TaskState::Succeeded.as_str();
        self.asked.as_ref().is_some_and(|Json(asked)| asked.state == succeeded)
    }

    pub fn id(&self) -> AllocationId {
        self.id.into()
    }

    pub fn project(&self) -> ProjectId {
        self.project_id.into()
    }

    pub fn node(&self) -> NodeId {
        self.node_id.into()
    }

    pub fn creator(&self) -> UserId {
        self.creator_id.into()
    }

    pub fn state(&self) -> Answer<AllocationState> {
        self.state.parse().map_err(ApiError::internal)
    }

    pub fn kind(&self) -> Answer<SkuKind> {
        self.kind.parse().map_err(ApiError::internal)
    }

    pub fn intent(&self) -> Answer<Sha256> {
        let bytes: [u8; 32] = self.intent_sha256.as_slice().try_into().map_err(ApiError::internal)?;
        Ok(Sha256::from_bytes(bytes))
    }

    /// The operation of this task type that the allocation's own intent allows.
    pub fn op(&self, task_type: TaskType) -> OpId {
        op(self.id(), task_type)
    }

    /// The operation of a flow, which is also the workflow's id.
    pub fn workflow(&self, flow: &str) -> OpId {
        derive_op(self.id(), flow, 1)
    }
}

/// Tasks that make an allocation.
pub const MAKES: [TaskType; 2] = [TaskType::VmProvision, TaskType::ProvisionUser];

/// What makes an allocation of this kind, and what takes it away.
pub const fn work_of(kind: SkuKind) -> [TaskType; 2] {
    match kind {
        SkuKind::Slice => [TaskType::VmProvision, TaskType::VmRelease],
        SkuKind::Machine => [TaskType::ProvisionUser, TaskType::DeprovisionUser],
    }
}

/// Wishes that came later (power) have generations of their own; what makes and takes away is the first.
pub fn op(allocation: AllocationId, task_type: TaskType) -> OpId {
    derive_op(allocation, task_type.as_str(), 1)
}

macro_rules! select_allocation {
    ($($rest:literal),+ $(,)?) => {
        concat!(
            "select a.id, a.project_id, a.name, a.kind, a.sku_id, a.sku_version, s.name as sku_name, a.slots,
                    a.rate_micro_per_hour, a.currency, a.creator_id, u.name as creator_name, a.request, a.node_id,
                    n.name as node_name, n.state as node_state, n.state_since as node_state_since, n.simulated,
                    a.intent_sha256, a.generation, a.state, a.state_since, a.state_reason, a.correlation_id, a.deadline_at,
                    a.ends_at, a.waiting_since, a.waiting_code, a.stuck_since, a.stuck_code, a.stuck_at, a.retried_at, a.cancel_asked_at,
                    a.forced, a.code, a.detail, a.power, a.power_wanted, a.power_task,
                    (select jsonb_build_object('state', t.state, 'code', t.code, 'detail', t.detail, 'since_ms',
                            floor(extract(epoch from coalesce(t.ended_at, t.created_at)) * 1000)::bigint)
                     from task t where t.id = a.power_task) as asked,
                    a.private_ip, a.default_username, a.created_at,
                    a.ended_at, a.version,
                    array(select x.slot_id from allocation_slot x where x.allocation_id = a.id order by x.slot_id) as slot_ids
             from allocation a join sku s on s.id = a.sku_id join node n on n.id = a.node_id
             join app_user u on u.id = a.creator_id ",
            $($rest),+
        )
    };
}

pub async fn get(from: impl PgExecutor<'_>, id: AllocationId) -> sqlx::Result<Option<AllocationRow>> {
    sqlx::query_as(select_allocation!("where a.id = $1"))
        .bind(id.uuid())
        .fetch_optional(from)
        .await
}

/// For a change that leaves it alive, or that has locked its quota already.
pub async fn lock(change: &mut Change, id: AllocationId) -> Answer<AllocationRow> {
    let row: Option<AllocationRow> = sqlx::query_as(select_allocation!("where a.id = $1 for update of a"))
        .bind(id.uuid())
        .fetch_optional(change.conn())
        .await?;
    row.ok_or_else(|| Code::NotFound.into())
}

/// For a change that may end it: the quota counts it, and is locked first.
pub async fn lock_to_end(change: &mut Change, id: AllocationId) -> Answer<AllocationRow> {
    let project: Option<Uuid> = sqlx::query_scalar("select project_id from allocation where id = $1")
        .bind(id.uuid())
        .fetch_optional(change.conn())
        .await?;
    quota::lock(change, project.ok_or(Code::NotFound)?.into()).await?;
    lock(change, id).await
}

/// What a list is narrowed to.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only projects that this person is in; none for whoever may look into all.
    pub of: Option<UserId>,
    pub project: Option<ProjectId>,
    pub state: Option<AllocationState>,
    /// Only those that have not ended.
    pub live: bool,
}

macro_rules! list_allocations {
    ($narrowed:literal) => {
        select_allocation!(
            "where ",
            $narrowed,
            " and ($3::text is null or a.state = $3) and (not $4 or a.ended_at is null)
              and ($5::timestamptz is null or (a.created_at, a.id) < ($5, $6))
              order by a.created_at desc, a.id desc limit $7"
        )
    };
}

/// Each narrowing is a statement of its own, with an index that has its rows in the order of the list: one statement for
/// all of them would be planned for the worst.
pub async fn list(pool: &PgPool, filter: &Filter, page: &Page) -> sqlx::Result<Vec<AllocationRow>> {
    let (at, id) = page.after_parts();
    let statement = match (filter.of, filter.project, filter.state, filter.live) {
        (Some(_), None, _, _) => list_allocations!(
            "a.id in (select mine.id from project_seat m cross join lateral
                         (select x.id, x.created_at from allocation x
                          where x.project_id = m.project_id and ($3::text is null or x.state = $3)
                            and (not $4 or x.ended_at is null)
                            and ($5::timestamptz is null or (x.created_at, x.id) < ($5, $6))
                          order by x.created_at desc, x.id desc limit $7) mine
                      where m.user_id = $1 and $2::uuid is null order by mine.created_at desc, mine.id desc limit $7)"
        ),
        (_, Some(_), _, _) => list_allocations!("a.project_id = $2 and $1::uuid is not distinct from $1"),
        (None, None, Some(_), _) => list_allocations!("a.state = $3 and num_nonnulls($1::uuid, $2::uuid) = 0"),
        (None, None, None, true) => list_allocations!("a.ended_at is null and num_nonnulls($1::uuid, $2::uuid) = 0"),
        (None, None, None, false) => list_allocations!("num_nonnulls($1::uuid, $2::uuid) = 0"),
    };
    sqlx::query_as(statement)
        .bind(filter.of.map(|user| user.uuid()))
        .bind(filter.project.map(|project| project.uuid()))
        .bind(filter.state.map(AllocationState::as_str))
        .bind(filter.live)
        .bind(at)
        .bind(id)
        .bind(page.fetch())
        .fetch_all(pool)
        .await
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct TransitionRow {
    pub from_state: Option<String>,
    pub to_state: String,
    pub at: OffsetDateTime,
    pub reason: String,
    pub actor: String,
    pub code: Option<String>,
    pub correlation_id: Uuid,
}

/// Oldest first; there are never many.
pub async fn transitions(pool: &PgPool, id: AllocationId) -> sqlx::Result<Vec<TransitionRow>> {
    sqlx::query_as(
        "select from_state, to_state, at, reason, actor, code, correlation_id from allocation_transition
         where allocation_id = $1 order by version",
    )
    .bind(id.uuid())
    .fetch_all(pool)
    .await
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct WipedRow {
    slot_id: Uuid,
    task_id: Uuid,
    method: Option<String>,
    created_at: OffsetDateTime,
}

impl WipedRow {
    pub fn view(self) -> WipedView {
        WipedView {
            slot_id: self.slot_id.into(),
            task_id: self.task_id.into(),
            method: self.method.unwrap_or_default(),
            at: self.created_at.into(),
        }
    }
}

/// The slots of one that was in use, each with the wipe that ended it: nobody else can have had a slot in between.
pub async fn wiped(pool: &PgPool, id: AllocationId) -> sqlx::Result<Vec<WipedRow>> {
    sqlx::query_as(
        "select x.slot_id, p.task_id, p.method, p.created_at from allocation_slot x cross join lateral (
             select p.task_id, p.proof ->> 'method' as method, p.created_at from slot_proof p
             where p.slot_id = x.slot_id and p.kind = 'wipe' and p.clean and p.created_at >= x.since
             order by p.no limit 1) p
         where x.allocation_id = $1 order by x.slot_id",
    )
    .bind(id.uuid())
    .fetch_all(pool)
    .await
}

/// Is the VM of the allocation $1 being switched, or was that done only after $2? The task type is $3.
macro_rules! switched_after {
    () => {
        "exists (select from intent i join task t on t.intent_sha256 = i.sha256
                 where i.allocation_id = $1 and i.generation > 1 and t.task_type = $3
                   and t.node_id = (select node_id from allocation where id = $1)
                   and (t.ended_at is null or t.ended_at > $2))"
    };
}

/// Whether its VM is on, as its node's list of that time has it; a switch that ended later knows better, also when it is
/// no longer the one that is waited for.
pub async fn powered(conn: impl PgExecutor<'_>, id: AllocationId, power: &str, at: Timestamp) -> sqlx::Result<()> {
    sqlx::query(concat!(
        "update allocation set power = $4, version = version + 1
         where id = $1 and state = 'active' and power is distinct from $4 and not ",
        switched_after!()
    ))
    .bind(id.uuid())
    .bind(OffsetDateTime::from(at))
    .bind(TaskType::VmPower.as_str())
    .bind(power)
    .execute(conn)
    .await?;
    Ok(())
}

/// Is it being switched, or was that done only after this moment?
pub async fn was_switched(conn: impl PgExecutor<'_>, id: AllocationId, at: Timestamp) -> sqlx::Result<bool> {
    sqlx::query_scalar(concat!("select ", switched_after!()))
        .bind(id.uuid())
        .bind(OffsetDateTime::from(at))
        .bind(TaskType::VmPower.as_str())
        .fetch_one(conn)
        .await
}

/// Switches that their nodes have signed as done.
pub async fn switched(conn: impl PgExecutor<'_>) -> sqlx::Result<()> {
    sqlx::query(
        "update allocation a set power = a.power_wanted, power_task = null, version = a.version + 1
         from task t where t.id = a.power_task and t.state = 'succeeded' and a.state = 'active'",
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// What was asked for, as it was signed.
pub async fn wish(change: &mut Change, row: &AllocationRow) -> Answer<Wish> {
    let bytes: Option<Vec<u8>> = sqlx::query_scalar("select wish from intent where sha256 = $1")
        .bind(&row.intent_sha256)
        .fetch_optional(change.conn())
        .await?;
    serde_json::from_slice(&bytes.ok_or(Code::IntentMissing)?).map_err(|_| Code::IntentInvalid.into())
}
