//! What the database itself holds of tenants: asked in plain SQL, as processes log in, with no code of ours in between.

use base::testing::TestDb;
use model::state::AllocationState;
use sqlx::{AssertSqlSafe, PgPool};

mod history;
mod moves;
mod projects;
mod proofs;
mod quotas;

const NOW: &str = "timestamptz '2026-01-01'";
const NODE: &str = "'00000000-0000-0000-0000-0000000000aa'";
const USER: &str = "'00000000-0000-0000-0000-0000000000ab'";
const PROJECT: &str = "'00000000-0000-0000-0000-0000000000ac'";
const SKU: &str = "'00000000-0000-0000-0000-0000000000ad'";

struct Rows {
    _test: TestDb,
    pool: PgPool,
}

/// The n-th allocation, and the n-th slot.
fn id(n: u32) -> String {
    format!("'00000000-0000-0000-0000-{n:012}'")
}

impl Rows {
    /// A project with the usual quota and one owner, a SKU at its first price, a node with two free slots.
    async fn new() -> Self {
        let test = TestDb::new().await;
        let pool = test.db().bookkeeping().clone();
        let rows = Self { _test: test, pool };
        rows.does(&format!(
            "insert into node (id, name, state, state_since, mode, created_at)
                 values ({NODE}, 'a', 'ready', {NOW}, 'slice', {NOW});
             insert into app_user (id, name, created_at) values ({USER}, 'ada', {NOW});
             insert into project (id, name, created_at) values ({PROJECT}, 'demo', {NOW});
             insert into quota (project_id) values ({PROJECT});
             insert into project_member (project_id, user_id, role, since) values ({PROJECT}, {USER}, 'owner', {NOW});
             insert into sku (id, name, kind, gpu_model, gpu_count, slots, vcpu, memory_mib, nvme_gib, fabric, images, created_at)
                 values ({SKU}, 's', 'slice', 'H100', 1, 1, 1, 1, 1, true, '[]', {NOW});
             insert into sku_version values ({SKU}, 1, 2000000, 'USD', {NOW}, 'ada');"
        ))
        .await;
        for n in [1, 2] {
            rows.does(&format!(
                "insert into slot (id, node_id, slot_index, pci_address, nvme_device, nvme_serial, nvme_wwn, nvme_size_bytes,
                     vcpu_count, memory_mib, mac_address, private_ip, gpu, baseline, seen_at, approved_at, approved_by, state,
                     state_since, created_at)
                 values ({}, {NODE}, {n}, 'gpu-{n}', 'nvme', 'serial-{n}', 'wwn', 4096, 1, 1, 'mac', 'ip', '{{}}', '{{}}', {NOW},
                     {NOW}, 'ada', 'free', {NOW}, {NOW});",
                id(n)
            ))
            .await;
        }
        rows
    }

    /// The n-th allocation, as the API would insert it.
    fn allocation(n: u32, slots: u32) -> String {
        format!(
            "insert into allocation (id, project_id, kind, sku_id, sku_version, slots, rate_micro_per_hour, currency, creator_id,
                 request, node_id, intent_sha256, state, state_since, state_reason, state_by, correlation_id, deadline_at, created_at)
             values ({}, {PROJECT}, 'slice', {SKU}, 1, {slots}, 2000000, 'USD', {USER}, '{{}}', {NODE}, '', 'requested', {NOW},
                 'asked for', 'ada', gen_random_uuid(), {NOW}, {NOW});",
            id(n)
        )
    }

    fn to(n: u32, state: AllocationState) -> String {
        let ended = if state.is_end() { NOW } else { "null" };
        format!(
            "update allocation set state = '{state}', state_since = state_since + interval '90 seconds', ended_at = {ended},
                 deadline_at = {NOW}, version = version + 1 where id = {};",
            id(n)
        )
    }

    async fn try_to(&self, sql: &str) -> Result<(), sqlx::Error> {
        let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.pool).await;
        done.map(drop)
    }

    async fn does(&self, sql: &str) {
        self.try_to(sql).await.unwrap_or_else(|error| panic!("{error}: {sql}"));
    }

    /// Refused, by this constraint or for want of this privilege, and without a trace.
    async fn refuses(&self, sql: &str, by: &str) {
        let before = self.state().await;
        let error = self.try_to(sql).await.expect_err(sql);
        let named = error.as_database_error().and_then(|error| error.constraint()) == Some(by);
        assert!(
            named || error.to_string().contains(by),
            "{error}\nrather than {by}: {sql}"
        );
        assert_eq!(self.state().await, before, "{sql}");
    }

    async fn state(&self) -> Vec<String> {
        let all = "select format('%s %s %s', a, (select count(*) from allocation_transition),
                                 (select count(*) from usage_span)) from allocation a
                   union all select format('%s', q) from quota q
                   union all select format('%s', m) from project_member m order by 1";
        sqlx::query_scalar(all).fetch_all(&self.pool).await.expect("readable")
    }

    async fn number(&self, sql: &str) -> i64 {
        let query = sqlx::query_scalar(AssertSqlSafe(sql.to_owned()));
        query.fetch_one(&self.pool).await.expect(sql)
    }
}
