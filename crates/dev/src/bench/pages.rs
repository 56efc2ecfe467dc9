//! Whether a list stays quick when there is much of it: a page of fifty over HTTP, of a hundred thousand allocations and
//! ten thousand nodes, against the same page of a thousand of each. Both platforms stand at the same time and are asked
//! in turns, so that both meet the same machine; every page is full on both.

use std::time::{Duration, Instant};

use base::Actor;
use base::auth::{Scope, token_create, user_create};
use model::api::{MemberAdd, Page, ProjectCreate, ProjectView};
use model::state::ProjectRole;
use serde_json::Value;
use sqlx::{Connection, PgConnection};

use super::Place;
use super::lot::superuser;
use super::sample::Sample;
use super::stand::Stand;
use crate::api::Api;
use crate::figures::{Goal, Report};

const SAMPLES: usize = 400;
const WARM_UP: usize = 20;
const LIMIT: usize = 50;
const GOAL: f64 = 2.0;
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

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let few = Years::pass(place, "pages-few", 1_000, 1_000).await?;
    let many = Years::pass(place, "pages-many", 100_000, 10_000).await?;
    let mut worst: f64 = 0.0;
    for list in LISTS {
        let [mut small, mut large] = [Sample::default(), Sample::default()];
        let paths = [few.path(list).await?, many.path(list).await?];
        for n in 0..WARM_UP + SAMPLES {
            // Each is first every second time.
            let mut pair = [(&few, &paths[0], &mut small), (&many, &paths[1], &mut large)];
            if n % 2 == 0 {
                pair.reverse();
            }
            for (years, path, sample) in pair {
                let took = years.page(list, path).await?;
                if n >= WARM_UP {
                    sample.put(took);
                }
            }
        }
        let (p99, limit) = (large.p(99.0), small.p(99.0));
        worst = worst.max(p99 / limit);
        let name = format!("{}, p99", list.name);
        report.put(&name, p99, "ms", Some(limit), Goal::RatioAtMost(GOAL));
    }
    report.put("the worst of them", worst, "x", None, Goal::None);
    few.stand.end().await?;
    many.stand.end().await?;
    Ok(())
}

/// One list, as somebody asks for it.
#[derive(Clone, Copy)]
struct List {
    name: &'static str,
    path: &'static str,
    /// Not its first page, but one far behind.
    later: bool,
    tenant: bool,
}

const fn list(name: &'static str, path: &'static str, later: bool, tenant: bool) -> List {
    List {
        name,
        path,
        later,
        tenant,
    }
}

const LISTS: [List; 9] = [
    list("allocations", "/v1/allocations?limit=50", false, false),
    list("allocations, a later page", "/v1/allocations?limit=50", true, false),
    list(
        "allocations by state",
        "/v1/allocations?limit=50&state=active",
        false,
        false,
    ),
    list("allocations alive", "/v1/allocations?limit=50&live=true", false, false),
    list(
        "allocations of a project",
        "/v1/allocations?limit=50&project=",
        false,
        false,
    ),
    list("allocations of a tenant", "/v1/allocations?limit=50", false, true),
    list("nodes", "/v1/nodes?limit=50", false, false),
    list("nodes, a later page", "/v1/nodes?limit=50", true, false),
    list("nodes by state", "/v1/nodes?limit=50&state=quarantined", false, false),
];

/// A platform with a past.
struct Years {
    stand: Stand,
    tenant: Api,
    small: ProjectView,
}

impl Years {
    async fn pass(place: &Place, name: &str, allocations: i32, nodes: i32) -> anyhow::Result<Self> {
        let stand = Stand::start(place, name, 1, |config| config.rate_token_per_s = 100_000).await?;
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

    /// With what it is narrowed to, and the place from which it goes on.
    async fn path(&self, list: List) -> anyhow::Result<String> {
        let mut path = list.path.to_owned();
        if path.ends_with("project=") {
            path += &self.small.id.to_string();
        }
        if list.later {
            // Four long pages further on.
            let mut next: Option<String> = None;
            for _ in 0..4 {
                let after = next.map(|next| format!("&after={next}")).unwrap_or_default();
                let longer = path.replace("limit=50", "limit=200");
                let page: Page<Value> = self.stand.api.get(&format!("{longer}{after}")).await?;
                next = page.next;
            }
            path += &next.map(|next| format!("&after={next}")).unwrap_or_default();
        }
        Ok(path)
    }

    async fn page(&self, list: List, path: &str) -> anyhow::Result<Duration> {
        let api = if list.tenant { &self.tenant } else { &self.stand.api };
        let began = Instant::now();
        let page: Page<Value> = api.get(path).await?;
        let took = began.elapsed();
        anyhow::ensure!(page.items.len() == LIMIT, "{path}: {} of {LIMIT}", page.items.len());
        Ok(took)
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
