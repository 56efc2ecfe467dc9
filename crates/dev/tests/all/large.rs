//! A platform that has been there for years: a hundred thousand allocations, ten thousand nodes. No list and no loop reads
//! the allocations from the first to the last; the judge is PostgreSQL's own count of such readings.

use base::auth::Scope;
use base::testing::eventually;
use dev::town::Town;
use fleet::slot::lease;
use model::api::{AllocationView, MemberAdd, Page, ProjectCreate, ProjectView, SkuView};
use model::state::ProjectRole;
use serde_json::Value;
use sqlx::types::Uuid;
use sqlx::types::time::OffsetDateTime;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::EXE;

/// A history without its telling: what triggers would write is not looked at here.
const FILL: &str = "
    alter table allocation disable trigger user;
    insert into node (id, name, state, state_since, mode, created_at, last_probe_at)
    select gen_random_uuid(), 'n-' || n, case when n % 2 = 0 then 'ready' else 'drained' end, now(), 'slice', now() - n * interval '1 minute', now()
    from generate_series(1, 10000) n;
    insert into slot (id, node_id, slot_index, pci_address, nvme_device, nvme_serial, nvme_wwn, nvme_size_bytes, vcpu_count,
        memory_mib, mac_address, private_ip, gpu, baseline, seen_at, approved_at, state, state_since, created_at)
    select gen_random_uuid(), n.id, i, 'p' || i, 'd', 's' || i, 'w', 4000000000000, 16, 65536, 'm', 'a', '{\"model\": \"H100\"}', '{}',
        now(), now(), 'free', now(), now()
    from node n, generate_series(1, 3) i where i <= 1 + length(n.name) % 3;
    insert into allocation (id, project_id, kind, sku_id, sku_version, slots, rate_micro_per_hour, currency, creator_id,
        request, node_id, intent_sha256, state, state_since, state_reason, state_by, correlation_id, created_at, ended_at)
    select gen_random_uuid(), (array(select id from project order by created_at))[1 + (n % 20 = 0)::int], 'slice', s.id, 1, 1,
        2000000, 'USD', u.id, '{}', d.id, '\\x00', case when n % 1000 = 0 then 'active' else 'released' end, now(), 'over', 'x',
        gen_random_uuid(), now() - n * interval '1 second', case when n % 1000 = 0 then null else now() end
    from generate_series(1, 100000) n, (select id from sku limit 1) s, (select id from app_user limit 1) u,
        (select id from node limit 1) d;
    alter table allocation enable trigger user;
    analyze;";

/// How often the table of allocations was read as a whole, and how often by an index.
async fn readings(conn: &mut PgConnection) -> (i64, i64) {
    sqlx::query_as("select seq_scan, idx_scan from pg_stat_user_tables where relname = 'allocation'")
        .fetch_one(conn)
        .await
        .expect("a count")
}

/// Nodes are read as a whole on purpose, by those who keep all identities in memory; their lists are not.
async fn plan_of_nodes(conn: &mut PgConnection, state: Option<&str>) -> String {
    let text = format!("explain {}", fleet::node::store::LISTS[usize::from(state.is_some())]);
    let lines: Vec<String> = sqlx::query_scalar(AssertSqlSafe(text))
        .bind(state)
        .bind(None::<OffsetDateTime>)
        .bind(None::<Uuid>)
        .bind(51_i64)
        .fetch_all(conn)
        .await
        .expect("a plan");
    lines.join("\n")
}

/// Whoever rents is led to a few nodes by the counts, in their order, and looks at the slots of those only, whether the
/// statement is planned for this wish or for any.
async fn renting_looks_at_a_few(conn: &mut PgConnection) {
    let prepared = format!(
        "prepare rent (text, bigint, bigint, bigint, boolean, bigint, uuid[]) as {}",
        lease::CANDIDATES
    );
    sqlx::raw_sql(AssertSqlSafe(prepared))
        .execute(&mut *conn)
        .await
        .expect("prepared");
    for mode in ["force_custom_plan", "force_generic_plan"] {
        let mode = format!("set plan_cache_mode = {mode}");
        sqlx::raw_sql(AssertSqlSafe(mode.clone()))
            .execute(&mut *conn)
            .await
            .expect("set");
        let lines = sqlx::raw_sql("explain (analyze) execute rent('H100', 1, 1, 1, false, 2, '{}')")
            .fetch_all(&mut *conn)
            .await;
        let lines: Vec<String> = lines.expect("a plan").iter().map(|row| row.get(0)).collect();
        let plan = lines.join("\n");
        assert!(
            plan.contains("using node_room_by_free") && !plan.contains("Seq Scan"),
            "{mode}: {plan}"
        );
        let looks = |line: &&String| line.contains(" on slot ");
        let loops = lines
            .iter()
            .find(looks)
            .and_then(|line| line.split("loops=").nth(1)?.trim_end_matches(')').parse().ok());
        // Twenty are enough; those that are drained are passed without a look at their slots.
        assert_eq!(loops, Some(20), "{mode}: {plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reads_everything_to_find_something() {
    let town = Town::still(EXE).await;
    town.lists_demo_image().await;
    dev::demo::ensure(&town.api()).await.expect("something to rent");
    let body = ProjectCreate {
        name: "small".to_owned(),
        owner: None,
    };
    let small: ProjectView = town.api().post("/v1/projects", &body).await.expect("a project");
    let (_, tenant) = town.person("tenant", Scope::Project).await;
    let seat = MemberAdd {
        user: "tenant".to_owned(),
        role: ProjectRole::Member,
    };
    let members = format!("/v1/projects/{}/members", small.id);
    let _: Value = town.api().post(&members, &seat).await.expect("a seat");
    let mut conn = PgConnection::connect(&town.db.owner_url()).await.expect("the owner");
    sqlx::raw_sql(FILL).execute(&mut conn).await.expect("years have passed");
    let before = readings(&mut conn).await;
    let one: Page<AllocationView> = town.api().get("/v1/allocations?limit=1").await.expect("one");
    let show = format!("/v1/allocations/{}", one.items[0].id);
    let _: AllocationView = town.api().get(&show).await.expect("shown");
    let mut next = one.next.expect("there are more");
    for _ in 0..3 {
        let path = format!("/v1/allocations?limit=200&after={next}");
        let page: Page<AllocationView> = town.api().get(&path).await.expect("a page");
        assert_eq!(page.items.len(), 200);
        next = page.next.expect("there are more");
    }
    let of_project = format!("/v1/allocations?project={}", small.id);
    for path in [
        "/v1/allocations",
        "/v1/allocations?state=active",
        "/v1/allocations?state=failed",
        "/v1/allocations?live=true",
        &of_project,
    ] {
        let _: Page<AllocationView> = town.api().get(path).await.expect(path);
        let mine: Page<AllocationView> = tenant.get(path).await.expect(path);
        assert!(mine.items.iter().all(|one| one.project_id == small.id), "{path}");
    }
    for state in [None, Some("ready"), Some("drained"), Some("removed")] {
        let plan = plan_of_nodes(&mut conn, state).await;
        assert!(
            plan.contains("Index Scan using node_by_") && !plan.contains("Seq Scan"),
            "{state:?}: {plan}"
        );
    }
    renting_looks_at_a_few(&mut conn).await;
    let skus: Page<SkuView> = tenant.get("/v1/skus").await.expect("skus");
    assert_eq!(skus.items.len(), 1);
    // Sessions tell what they have read a little later; what was found by indexes has then been told, too.
    let (whole, _) = eventually("what was read is told", async || {
        let mut conn = PgConnection::connect(&town.db.owner_url()).await.expect("the owner");
        let now = readings(&mut conn).await;
        (now.1 >= before.1 + 20).then_some(now).ok_or(now)
    })
    .await;
    assert_eq!(whole, before.0, "somebody has read all of them");
    town.end().await;
}
