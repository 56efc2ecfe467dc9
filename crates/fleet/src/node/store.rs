//! Rows of nodes.

use base::Change;
use base::http::{ApiError, Page};
use model::id::{NodeId, SessionId};
use model::node_api::{EnrolRequest, Hardware, NodeProbe, SessionRequest};
use model::signal::Code;
use model::state::{NodeMode, NodeState};
use model::task::health_probe;
use model::time::Timestamp;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct NodeRow {
    pub id: Uuid,
    pub name: String,
    pub state: String,
    pub state_since: OffsetDateTime,
    pub state_reason: Option<String>,
    pub resume_state: Option<String>,
    /// The code behind a quarantine, where it decides what ends it.
    pub quarantine_code: Option<String>,
    pub mode: String,
    pub simulated: bool,
    pub epoch: i64,
    pub facts: serde_json::Value,
    pub hardware: serde_json::Value,
    pub versions: Option<serde_json::Value>,
    pub task_types: serde_json::Value,
    pub manifest_version: Option<i64>,
    pub session_id: Option<Uuid>,
    pub result_public: Option<Vec<u8>>,
    pub last_seen_at: Option<OffsetDateTime>,
    pub last_probe: Option<serde_json::Value>,
    pub last_probe_at: Option<OffsetDateTime>,
    pub self_probe: Option<serde_json::Value>,
    pub condition: Option<serde_json::Value>,
    pub condition_at: Option<OffsetDateTime>,
    pub trouble: Option<String>,
    pub trouble_since: Option<OffsetDateTime>,
    /// When its devices were last looked at.
    pub topology_at: Option<OffsetDateTime>,
    /// Somebody wants it back from a drain; it has to prove itself first.
    pub return_asked_at: Option<OffsetDateTime>,
    /// Nobody has the machine, and something of its last tenant may be there.
    pub left_over_since: Option<OffsetDateTime>,
    pub created_at: OffsetDateTime,
    pub version: i64,
    /// Operations and tasks counted so far; they rise with the task that is queued.
    pub op_counter: i64,
    pub task_seq: i64,
}

impl NodeRow {
    pub fn id(&self) -> NodeId {
        self.id.into()
    }

    pub fn state(&self) -> Result<NodeState, ApiError> {
        self.state.parse().map_err(ApiError::internal)
    }

    /// In quarantine because two machines use its identity.
    pub fn is_cloned(&self) -> bool {
        self.quarantine_code.as_deref() == Some(Code::NodeCloned.as_str())
    }
}

pub async fn insert(change: &mut Change, id: NodeId, name: &str, mode: NodeMode) -> sqlx::Result<()> {
    let at = OffsetDateTime::from(change.at());
    sqlx::query(
        "insert into node (id, name, state, state_since, state_reason, mode, created_at)
         values ($1, $2, 'enrolling', $3, 'waits for the host to enrol', $4, $3)",
    )
    .bind(id.uuid())
    .bind(name)
    .bind(at)
    .bind(mode.as_str())
    .execute(change.conn())
    .await?;
    Ok(())
}

pub async fn get(pool: &PgPool, id: NodeId) -> sqlx::Result<Option<NodeRow>> {
    sqlx::query_as("select * from node where id = $1")
        .bind(id.uuid())
        .fetch_optional(pool)
        .await
}

/// The row, locked until the change ends. Everything that touches a node's queue or state takes this lock first.
pub async fn lock(change: &mut Change, id: NodeId) -> sqlx::Result<Option<NodeRow>> {
    sqlx::query_as("select * from node where id = $1 for update")
        .bind(id.uuid())
        .fetch_optional(change.conn())
        .await
}

/// The first of these that nobody else has locked, locked.
pub(crate) async fn lock_first(change: &mut Change, ids: &[Uuid]) -> sqlx::Result<Option<NodeRow>> {
    sqlx::query_as(
        "select * from node where id = any($1) order by array_position($1, id) limit 1 for update skip locked",
    )
    .bind(ids)
    .fetch_optional(change.conn())
    .await
}

/// Each in the order of its index: all that are not removed, or all in one state.
pub const LISTS: [&str; 2] = [
    "select * from node
     where $1::text is null and state <> 'removed' and ($2::timestamptz is null or (created_at, id) < ($2, $3))
     order by created_at desc, id desc limit $4",
    "select * from node
     where state = $1 and ($2::timestamptz is null or (created_at, id) < ($2, $3))
     order by created_at desc, id desc limit $4",
];

pub async fn list(pool: &PgPool, state: Option<NodeState>, page: &Page) -> sqlx::Result<Vec<NodeRow>> {
    let (at, id) = page.after_parts();
    sqlx::query_as(LISTS[usize::from(state.is_some())])
        .bind(state.map(NodeState::as_str))
        .bind(at)
        .bind(id)
        .bind(page.fetch())
        .fetch_all(pool)
        .await
}

/// The device is in: a new epoch, and nothing of the old one. A copy is shut out by that, so a quarantine for one
/// ends here; any other is somebody's decision and stays.
pub async fn enrolled(
    conn: &mut PgConnection,
    id: NodeId,
    epoch: u64,
    request: &EnrolRequest,
    at: Timestamp,
) -> sqlx::Result<()> {
    sqlx::query(
        "update node set epoch = $2,
             state = case when state = 'quarantined' and quarantine_code is distinct from $9 then state
                     else 'enrolling' end,
             state_since = case when state = 'quarantined' and quarantine_code is distinct from $9 then state_since
                     else $3 end,
             state_reason = case when state = 'quarantined' and quarantine_code is distinct from $9 then state_reason
                     else 'waits for its first probe' end,
             quarantine_code = nullif(quarantine_code, $9), session_heard_at = null, resume_state = null, probe_asked_at = null, probe_tries = 0, simulated = $4, facts = $5, hardware = $6, versions = $7, result_public = $8,
             session_id = null, task_seq = 0, task_types = '[]', version = version + 1
         where id = $1",
    )
    .bind(id.uuid())
    .bind(epoch as i64)
    .bind(OffsetDateTime::from(at))
    .bind(request.simulated)
    .bind(sqlx::types::Json(&request.facts))
    .bind(sqlx::types::Json(&request.hardware))
    .bind(sqlx::types::Json(&request.versions))
    .bind(request.result_public.as_bytes().as_slice())
    .bind(Code::NodeCloned.as_str())
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn session(
    conn: &mut PgConnection,
    id: NodeId,
    request: &SessionRequest,
    hardware: &Hardware,
    at: Timestamp,
) -> sqlx::Result<()> {
    sqlx::query(
        "update node set session_id = $2, session_since = $3, session_heard_at = $3, boot_id = $4, hardware = $5, versions = $6, simulated = $7,
             task_types = $8, manifest_version = $9, version = version + 1
         where id = $1",
    )
    .bind(id.uuid())
    .bind(SessionId::uuid(request.session_id))
    .bind(OffsetDateTime::from(at))
    .bind(&request.boot_id)
    .bind(sqlx::types::Json(hardware))
    .bind(sqlx::types::Json(&request.versions))
    .bind(request.simulated)
    .bind(sqlx::types::Json(&request.task_types))
    .bind(request.manifest_version as i64)
    .execute(conn)
    .await?;
    Ok(())
}

/// What a state remembers for the way out of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// Where a silent node goes back to.
    pub resume: Option<NodeState>,
    pub quarantine_code: Option<Code>,
}

pub async fn set_state(
    conn: &mut PgConnection,
    id: NodeId,
    to: NodeState,
    reason: &str,
    kept: Kept,
    at: Timestamp,
) -> sqlx::Result<()> {
    sqlx::query(
        "update node set state = $2, state_since = $3, state_reason = $4, resume_state = $5, quarantine_code = $6,
             return_asked_at = case when $2 in ('draining', 'drained', 'stale') then return_asked_at end,
             version = version + 1
         where id = $1",
    )
    .bind(id.uuid())
    .bind(to.as_str())
    .bind(OffsetDateTime::from(at))
    .bind(reason)
    .bind(kept.resume.map(NodeState::as_str))
    .bind(kept.quarantine_code.map(Code::as_str))
    .execute(conn)
    .await?;
    Ok(())
}

/// Somebody wants it back, or no longer does; and why it is where it is.
pub async fn ask_return(conn: &mut PgConnection, id: NodeId, at: Option<Timestamp>, reason: &str) -> sqlx::Result<()> {
    sqlx::query("update node set return_asked_at = $2, state_reason = $3, version = version + 1 where id = $1")
        .bind(id.uuid())
        .bind(at.map(OffsetDateTime::from))
        .bind(reason)
        .execute(conn)
        .await?;
    Ok(())
}

pub async fn set_mode(conn: &mut PgConnection, id: NodeId, mode: NodeMode) -> sqlx::Result<()> {
    sqlx::query("update node set mode = $2, version = version + 1 where id = $1")
        .bind(id.uuid())
        .bind(mode.as_str())
        .execute(conn)
        .await?;
    Ok(())
}

/// Bookkeeping: what the node says of itself, newest wins.
pub async fn self_probed(pool: &PgPool, id: NodeId, probe: &NodeProbe, at: Timestamp) -> sqlx::Result<()> {
    sqlx::query("update node set self_probe = $2, self_probe_at = $3 where id = $1")
        .bind(id.uuid())
        .bind(sqlx::types::Json(probe))
        .bind(OffsetDateTime::from(at))
        .execute(pool)
        .await?;
    Ok(())
}

/// Nodes that should be heard and were not.
pub async fn silent(pool: &PgPool, before: Timestamp) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar(
        "select id from node where state in ('ready', 'draining', 'drained')
           and coalesce(last_seen_at, state_since) < $1 and state_since < $1 limit 500",
    )
    .bind(OffsetDateTime::from(before))
    .fetch_all(pool)
    .await
}

/// What one statement dates back; nobody waits long for it.
const DATED_AT_ONCE: i64 = 500;

/// The nodes about which something is written that is further ahead than it may be.
macro_rules! ahead {
    () => {
        "from node where greatest(state_since, return_asked_at, last_seen_at, session_heard_at, condition_at,
                 trouble_since, last_probe_at, topology_at, probe_asked_at)
             > (select now + $2 * interval '1 ms' from clock)"
    };
}

/// Our clock was set back: what nodes did "in the future" they did just now. Otherwise nothing that they do from here on
/// would be newer, and whoever fell silent then would prove itself in vain. Nobody knows when a proof from there was given:
/// it is none any more. Two clocks have to agree that it is the future, this process's and the database's: one that is
/// behind alone must not make the others take everybody for silent. Nobody who holds a node is waited for; true if all
/// that was found further ahead than `ahead_ms` is done.
pub async fn date_back(pool: &PgPool, now: Timestamp, ahead_ms: i64) -> sqlx::Result<bool> {
    loop {
        let (found, done): (i64, i64) = sqlx::query_as(concat!(
            "with clock as materialized (select greatest($1, clock_timestamp()) as now),
                  free as (select id ",
            ahead!(),
            " order by id limit $3 for no key update skip locked),
                  done as (
                      update node set
                          state_since = least(state_since, now),
                          return_asked_at = case when return_asked_at > now then now else return_asked_at end,
                          last_seen_at = case when last_seen_at > now then now else last_seen_at end,
                          session_heard_at = case when session_heard_at > now then now else session_heard_at end,
                          condition_at = case when condition_at > now then now else condition_at end,
                          trouble_since = case when trouble_since > now then now else trouble_since end,
                          last_probe_at = case when last_probe_at <= now then last_probe_at end,
                          topology_at = case when topology_at <= now then topology_at end,
                          probe_asked_at = case when probe_asked_at <= now then probe_asked_at end
                      from free, clock where node.id = free.id returning node.id)
             select (select count(*) ",
            ahead!(),
            "), (select count(*) from done)"
        ))
        .bind(OffsetDateTime::from(now))
        .bind(ahead_ms)
        .bind(DATED_AT_ONCE)
        .fetch_one(pool)
        .await?;
        if done < DATED_AT_ONCE {
            return Ok(found == done);
        }
    }
}

/// When a node is due for a probe.
#[derive(Clone, Copy, Debug)]
pub struct ProbeRule {
    pub now: Timestamp,
    /// Only who was heard since then.
    pub heard_after: Timestamp,
    /// Whoever is fine is asked this often.
    pub every_ms: i64,
    /// Whether to look for those at all: that means looking at every node.
    pub all: bool,
}

/// How many nodes one look names that want a probe.
pub const PROBES_AT_ONCE: usize = 200;

/// Nodes that are there and want a probe: to become ready, or because the last one is old. Who does not answer is
/// asked again ten seconds later, then twenty, and so on; whoever was asked well in the future was so before our clock was
/// set back. Each comes with the number of its last task.
pub async fn want_probe(pool: &PgPool, rule: ProbeRule) -> sqlx::Result<Vec<(Uuid, i64)>> {
    sqlx::query_as(
        // Two looks: those who have to prove themselves, by an index, and those whose proof has grown old.
        "select id, task_seq from (
             select * from node where state in ('enrolling', 'stale')
             union all
             select * from node where $5 and state in ('ready', 'draining', 'drained')
                 and coalesce(last_probe_at, created_at) < $2
         ) as due
         where session_id is not null and last_seen_at > $1 and task_types @> $4
           and (probe_asked_at is null or probe_asked_at > $3 + interval '5 s'
                or probe_asked_at < $3 - least(interval '10 s' * power(2, least(greatest(probe_tries - 1, 0), 10)), $3 - $2))
         order by probe_asked_at nulls first, id limit $6",
    )
    .bind(OffsetDateTime::from(rule.heard_after))
    .bind(OffsetDateTime::from(rule.now.plus_ms(-rule.every_ms)))
    .bind(OffsetDateTime::from(rule.now))
    .bind(serde_json::json!([{ "type": health_probe::SPEC.name }]))
    .bind(rule.all)
    .bind(PROBES_AT_ONCE as i64)
    .fetch_all(pool)
    .await
}
