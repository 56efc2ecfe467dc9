//! A platform with a past, written straight into its tables: so many nodes, so many allocations that are mostly over.

use base::Actor;
use base::auth::{Scope, token_create, user_create};
use model::api::{MemberAdd, ProjectCreate, ProjectView};
use model::state::ProjectRole;
use serde_json::Value;
use sqlx::{Connection, PgConnection};

use super::Place;
use super::lot::superuser;
use super::stand::Stand;
use crate::api::Api;

const PROJECTS: [&str; 2] = ["large", "small"];

/// A history without its telling: one of ten is alive, one of ten is the small project's.
const NODES: &str = "
    insert into node (id, name, state, state_since, mode, created_at, last_probe_at)
    select gen_random_uuid(), 'n-' || n, case when n % 10 = 0 then 'quarantined' else 'drained' end, now(), 'slice',
        now() - n * interval '1 minute', now()
    from generate_series(1, $1) n";
const SKU: &str = "
    insert into sku (id, name, kind, gpu_model, gpu_count, slots, vcpu, memory_mib, nvme_gib, fabric, images, created_at)
    values ('00000000-0000-7000-8000-000000000003', 's', 'slice', 'H100', 1, 1, 1, 1, 1, false, '[]', now());
    insert into sku_version values ('00000000-0000-7000-8000-000000000003', 1, 1, 'USD', now(), 'x');";
const ALLOCATIONS: &str = "
    insert into allocation (id, project_id, kind, sku_id, sku_version, slots, rate_micro_per_hour, currency, creator_id,
        request, node_id, intent_sha256, state, state_since, state_reason, state_by, correlation_id, created_at, ended_at)
    select gen_random_uuid(), (array(select id from project order by name))[1 + (n % 10 = 5)::int], 'slice', s.id, 1, 1,
        1, 'USD', u.id, '{}', d.id, '\\x00', case when n % 10 = 0 then 'active' else 'released' end, now(), 'over', 'x',
        gen_random_uuid(), now() - n * interval '1 second', case when n % 10 = 0 then null else now() end
    from generate_series(1, $1) n, sku s, (select id from app_user limit 1) u, (select id from node limit 1) d";

/// A platform with a past.
pub(super) struct Years {
    pub(super) stand: Stand,
    pub(super) tenant: Api,
    pub(super) small: ProjectView,
}

impl Years {
    pub(super) async fn pass(place: &Place, name: &str, allocations: i32, nodes: i32) -> anyhow::Result<Self> {
        let stand = Stand::start(place, name, 1, |_| {}).await?;
        let mut made = Vec::new();
        for name in PROJECTS {
            let body = ProjectCreate {
                name: name.to_owned(),
                owner: None,
            };
            made.push(stand.api.post::<ProjectView>("/v1/projects", &body).await?);
        }
        let small = made.remove(1);
        let tenant = tenant(&stand, &small).await?;
        let mut conn = superuser(&stand).await?;
        fill(&mut conn, allocations, nodes).await?;
        conn.close().await?;
        Ok(Self { stand, tenant, small })
    }
}

async fn fill(conn: &mut PgConnection, allocations: i32, nodes: i32) -> anyhow::Result<()> {
    sqlx::raw_sql("alter table allocation disable trigger user")
        .execute(&mut *conn)
        .await?;
    sqlx::raw_sql(SKU).execute(&mut *conn).await?;
    sqlx::query(NODES).bind(nodes).execute(&mut *conn).await?;
    sqlx::query(ALLOCATIONS).bind(allocations).execute(&mut *conn).await?;
    sqlx::raw_sql("alter table allocation enable trigger user; analyze")
        .execute(&mut *conn)
        .await?;
    Ok(())
}

/// Somebody with a seat in the small project and nothing else.
async fn tenant(stand: &Stand, project: &ProjectView) -> anyhow::Result<Api> {
    let (db, actor) = (&stand.platform.apps[0].db, Actor::system("bench"));
    let user = user_create(db, &actor, "tenant", &[]).await;
    let user = user.map_err(|error| anyhow::anyhow!("no tenant: {}", error.code))?;
    let token = token_create(db, &actor, user, "bench", &[Scope::Project], 3600).await;
    let token = token.map_err(|error| anyhow::anyhow!("no token: {}", error.code))?;
    let seat = MemberAdd {
        user: "tenant".to_owned(),
        role: ProjectRole::Member,
    };
    let members = format!("/v1/projects/{}/members", project.id);
    let _: Value = stand.api.post(&members, &seat).await?;
    Api::new(stand.api.url(), &token.secret.reveal())
}
