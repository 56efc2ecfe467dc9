//! Whether the time of an answer tells what its words do not: an allocation of somebody else's against one that does not
//! exist, asked for in turns by the same person. Two answers are alike when their medians are.

use std::time::Instant;

use base::Actor;
use base::auth::{Scope, token_create, user_create};
use http::Method;
use model::id::AllocationId;
use sqlx::{ConnectOptions, Connection};

use super::Place;
use super::sample::Sample;
use super::stand::Stand;
use crate::api::Api;
use crate::figures::{Goal, Report};

const PAIRS: usize = 1_000;
const WARM_UP: usize = 100;

/// A row as the database would have it after a release; nobody looks at how it came there.
const ROW: &str = "
    alter table allocation disable trigger user;
    insert into node (id, name, state, state_since, mode, created_at)
    values ('00000000-0000-7000-8000-000000000001', 'n', 'drained', now(), 'slice', now());
    insert into project (id, name, created_at) values ('00000000-0000-7000-8000-000000000002', 'hers', now());
    insert into quota (project_id) values ('00000000-0000-7000-8000-000000000002');
    insert into sku (id, name, kind, gpu_model, gpu_count, slots, vcpu, memory_mib, nvme_gib, fabric, images, created_at)
    values ('00000000-0000-7000-8000-000000000003', 's', 'slice', 'H100', 1, 1, 1, 1, 1, false, '[]', now());
    insert into sku_version values ('00000000-0000-7000-8000-000000000003', 1, 1, 'USD', now(), 'x');
    insert into allocation (id, project_id, kind, sku_id, sku_version, slots, rate_micro_per_hour, currency, creator_id,
        request, node_id, intent_sha256, state, state_since, state_reason, state_by, correlation_id, created_at, ended_at)
    select '00000000-0000-7000-8000-000000000004', '00000000-0000-7000-8000-000000000002', 'slice',
        '00000000-0000-7000-8000-000000000003', 1, 1, 1, 'USD', u.id, '{}', '00000000-0000-7000-8000-000000000001', '\\x00',
        'released', now(), 'over', 'x', gen_random_uuid(), now(), now()
    from (select id from app_user limit 1) u;
    alter table allocation enable trigger user;";

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let stand = Stand::start(place, "foreign", 1, |_| {}).await?;
    let mut conn = stand.postgres.superuser(base::db::managed::DATABASE).connect().await?;
    sqlx::raw_sql(ROW).execute(&mut conn).await?;
    conn.close().await?;
    let (db, actor) = (&stand.platform.apps[0].db, Actor::system("bench"));
    let user = user_create(db, &actor, "stranger", &[])
        .await
        .map_err(|error| anyhow::anyhow!("no stranger: {}", error.code))?;
    let token = token_create(db, &actor, user, "bench", &[Scope::Project], 3600).await;
    let token = token.map_err(|error| anyhow::anyhow!("no token: {}", error.code))?;
    let api = Api::new(stand.api.url(), &token.secret.reveal())?;
    let foreign: uuid::Uuid = "00000000-0000-7000-8000-000000000004".parse()?;
    let (mut theirs, mut nobodys) = (Sample::default(), Sample::default());
    for n in 0..WARM_UP + PAIRS {
        // Each of the two is first in every second pair.
        let mut pair = [
            (AllocationId::from(foreign), &mut theirs),
            (AllocationId::new(), &mut nobodys),
        ];
        if n % 2 == 0 {
            pair.reverse();
        }
        for (id, sample) in pair {
            let began = Instant::now();
            let answer = api
                .call(Method::GET, &format!("/v1/allocations/{id}"), None::<&()>)
                .await?;
            anyhow::ensure!(answer.status.as_u16() == 404, "{answer:?}");
            if n >= WARM_UP {
                sample.extend([began.elapsed()]);
            }
        }
    }
    stand.end().await?;
    report.put("pairs", PAIRS as f64, "", None, Goal::None);
    report.put("missing, p50", nobodys.p(50.0), "ms", None, Goal::None);
    report.put(
        "foreign, p50",
        theirs.p(50.0),
        "ms",
        Some(nobodys.p(50.0)),
        Goal::RatioAtMost(1.1),
    );
    Ok(())
}
