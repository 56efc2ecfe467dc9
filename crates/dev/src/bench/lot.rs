//! A fleet for renting: one node that plays its part over mutual TLS, discovered and approved as any other, and as many
//! twins of its rows as a bench needs. Twins have sessions and slots like it; tasks are signed and queued for them, and
//! nobody comes for those.

use std::time::{Duration, Instant};

use base::Clock;
use executor::SlicePolicy;
use host::pretend::{Pretend, Profile};
use model::api::{NodeView, Page, ProjectCreate, ProjectView, SlotView, TaskView};
use model::envelope::TaskPayload;
use model::id::ProjectId;
use model::node_api::OfferedTask;
use model::state::{NodeMode, NodeState};
use model::task::{Task, TaskType};
use serde_json::json;
use sqlx::{ConnectOptions, Connection, PgConnection};

use super::puppet::Puppet;
use super::stand::Stand;
use crate::demo;
use crate::images::Operators;
use crate::platform::keys_dir;

const WITHIN: Duration = Duration::from_secs(60);

const NO_LIMITS: &str = "update quota set slots = 1000000, allocations = 1000000";

const TWINS: &str = "
    with twin as (
        insert into node select (jsonb_populate_record(n, jsonb_build_object(
            'id', gen_random_uuid(), 'name', 'twin-' || gen_random_uuid(), 'created_at', now()))).*
        from node n, generate_series(1, $2) i where n.id = $1 returning id)
    insert into slot select (jsonb_populate_record(s, jsonb_build_object(
        'id', gen_random_uuid(), 'node_id', t.id, 'state', 'free', 'lease_id', null))).*
    from slot s, twin t where s.node_id = $1";

/// In domains of their own; a machine has 256 slots at most.
const MORE_SLOTS: &str = "
    insert into slot select (jsonb_populate_record(s, jsonb_build_object(
        'id', gen_random_uuid(), 'slot_index', s.slot_index + 8 * i,
        'pci_address', lpad(to_hex(i), 4, '0') || substr(s.pci_address, 5),
        'fabric_device', lpad(to_hex(i), 4, '0') || substr(s.fabric_device, 5),
        'nvme_serial', s.nvme_serial || '-' || i))).*
    from slot s, generate_series(1, $2) i where s.node_id = $1";

pub(super) struct Lot {
    pub(super) node: Puppet,
    /// What the node would find on its host.
    found: String,
}

impl Lot {
    pub(super) async fn open(stand: &Stand) -> anyhow::Result<Self> {
        let operators = Operators {
            keys_dir: &keys_dir(stand.scratch.path()),
            now: Clock::real().now(),
        };
        operators.demo(&stand.api).await?;
        demo::ensure(&stand.api).await?;
        let node = Puppet::awake_for(&stand.api, "lender", NodeMode::Slice).await?;
        let policy = SlicePolicy {
            cidr: Some("10.0.0.0/16".parse()?),
            bridges: vec!["br-slices".parse()?],
        };
        let host = Pretend::in_memory(Profile::H100x8).host();
        let found = executor::discover(&host, node.id, &policy).map_err(|fail| anyhow::anyhow!("{fail:?}"))?;
        let this = Self {
            node,
            found: serde_json::to_string(&found)?,
        };
        this.come_to_life(stand).await?;
        Ok(this)
    }

    /// Probed, discovered, approved.
    async fn come_to_life(&self, stand: &Stand) -> anyhow::Result<()> {
        let (api, id) = (&stand.api, self.node.id);
        let began = Instant::now();
        loop {
            self.answer_once().await?;
            let seen: NodeView = api.get(&format!("/v1/nodes/{id}")).await?;
            if seen.state == NodeState::Ready {
                break;
            }
            anyhow::ensure!(began.elapsed() < WITHIN, "the node is {}", seen.state);
        }
        let asked: TaskView = api.post(&format!("/v1/nodes/{id}/discover"), &json!({})).await?;
        loop {
            self.answer_once().await?;
            let task: TaskView = api.get(&format!("/v1/tasks/{}", asked.id)).await?;
            if task.state.is_end() {
                break;
            }
            anyhow::ensure!(began.elapsed() < WITHIN, "the discovery is {}", task.state);
        }
        let slots: Page<SlotView> = api.get(&format!("/v1/slots?node={id}")).await?;
        anyhow::ensure!(!slots.items.is_empty(), "no slots were found");
        for slot in slots.items {
            let _: SlotView = api.post(&format!("/v1/slots/{}/approve", slot.id), &json!({})).await?;
        }
        Ok(())
    }

    /// One wait; whatever looks is answered, and what does more is for the caller.
    pub(super) async fn answer_once(&self) -> anyhow::Result<Vec<(OfferedTask, Task)>> {
        let mut more = Vec::new();
        for offered in self.node.wait().await? {
            let task = task_of(&offered)?;
            let now = Clock::real().now();
            match task.task_type() {
                TaskType::HealthProbe => self.node.land(&offered, now).await?,
                TaskType::TopologyDiscover => self.node.land_with(&offered, now, self.found.clone()).await?,
                _ => more.push((offered, task)),
            }
        }
        Ok(more)
    }

    /// So many nodes more, each with slots like the first one's.
    pub(super) async fn twins(&self, stand: &Stand, nodes: i32) -> anyhow::Result<()> {
        self.grow(stand, TWINS, nodes).await
    }

    /// So many times eight slots more on the node itself.
    pub(super) async fn more_slots(&self, stand: &Stand, times: i32) -> anyhow::Result<()> {
        self.grow(stand, MORE_SLOTS, times).await
    }

    async fn grow(&self, stand: &Stand, statement: &'static str, by: i32) -> anyhow::Result<()> {
        let mut conn = superuser(stand).await?;
        let grown = sqlx::query(statement).bind(self.node.id.uuid()).bind(by);
        grown.execute(&mut conn).await?;
        sqlx::raw_sql("analyze").execute(&mut conn).await?;
        Ok(conn.close().await?)
    }
}

/// So many projects whose quotas are in nobody's way.
pub(super) async fn projects(stand: &Stand, count: usize) -> anyhow::Result<Vec<ProjectId>> {
    let mut made = Vec::new();
    for n in 0..count {
        let body = ProjectCreate {
            name: format!("tenant-{n}"),
            owner: None,
        };
        let project: ProjectView = stand.api.post("/v1/projects", &body).await?;
        made.push(project.id);
    }
    let mut conn = superuser(stand).await?;
    sqlx::raw_sql(NO_LIMITS).execute(&mut conn).await?;
    conn.close().await?;
    Ok(made)
}

pub(super) async fn superuser(stand: &Stand) -> anyhow::Result<PgConnection> {
    Ok(stand.postgres.superuser(base::db::managed::DATABASE).connect().await?)
}

fn task_of(offered: &OfferedTask) -> anyhow::Result<Task> {
    let payload = offered
        .envelope
        .payload_unverified()
        .map_err(|code| anyhow::anyhow!("{code}"))?;
    let payload: TaskPayload = serde_json::from_slice(&payload)?;
    Task::parse(&payload.task_type, payload.type_version, &payload.params)
        .map_err(|(code, why)| anyhow::anyhow!("{code}: {why}"))
}
