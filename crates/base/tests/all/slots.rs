//! What the database itself holds of slots: asked in plain SQL, as processes log in, with no code of ours in between.

use base::testing::TestDb;
use sqlx::{AssertSqlSafe, PgPool};

mod leases;

const NODE: &str = "00000000-0000-0000-0000-0000000000aa";
const TASK: &str = "00000000-0000-0000-0000-0000000000bb";
const OP: &str = "00000000-0000-0000-0000-0000000000cc";
const OTHER_OP: &str = "00000000-0000-0000-0000-0000000000dd";
const NOW: &str = "timestamptz '2026-01-01'";

pub(crate) struct Rows {
    _test: TestDb,
    pool: PgPool,
}

fn slot(n: u32) -> String {
    format!("'00000000-0000-0000-0000-{n:012}'")
}

impl Rows {
    /// A node in slice mode with two free slots, and two tasks that a proof can name.
    async fn new() -> Self {
        let test = TestDb::new().await;
        let pool = test.db().bookkeeping().clone();
        let rows = Self { _test: test, pool };
        rows.does(&format!(
            "insert into node (id, name, state, state_since, mode, created_at)
             values ('{NODE}', 'a', 'ready', {NOW}, 'slice', {NOW});"
        ))
        .await;
        for task in [TASK, "00000000-0000-0000-0000-0000000000be"] {
            rows.does(&format!(
                "insert into task (id, op_id, issue, node_id, node_epoch, seq, task_type, type_version, keyid, envelope,
                     payload_sha256, state, actor_ref, correlation_id, created_at, start_by)
                 values ('{task}', gen_random_uuid(), 0, '{NODE}', 1, 1, 'slice.vm_release', 1, '', '', '', 'queued', '',
                     gen_random_uuid(), {NOW}, {NOW});"
            ))
            .await;
        }
        for n in [1, 2] {
            rows.does(&rows.new_slot(n, n, "free")).await;
        }
        rows
    }

    fn new_slot(&self, n: u32, devices: u32, state: &str) -> String {
        format!(
            "insert into slot (id, node_id, slot_index, pci_address, nvme_device, nvme_serial, nvme_wwn, nvme_size_bytes,
                 vcpu_count, memory_mib, mac_address, private_ip, gpu, baseline, seen_at, approved_at, approved_by, state,
                 state_since, created_at)
             values ({id}, '{NODE}', {devices}, 'gpu-{devices}', 'nvme', 'serial-{devices}', 'wwn', 4096, 1, 1, 'mac', 'ip',
                 '{{}}', '{{}}', {NOW}, {NOW}, 'ada', '{state}', {NOW}, {NOW});",
            id = slot(n)
        )
    }

    /// All of it in one transaction.
    async fn try_to(&self, sql: &str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
            .execute(&self.pool)
            .await
            .map(drop)
    }

    async fn does(&self, sql: &str) {
        self.try_to(sql).await.unwrap_or_else(|error| panic!("{error}: {sql}"));
    }

    /// Refused, by this constraint or for want of this privilege, and without a trace.
    async fn refuses(&self, sql: &str, by: &str) {
        let before = self.state().await;
        let error = self.try_to(sql).await.expect_err(sql);
        let text = error.to_string();
        assert!(text.contains(by), "{text}\nrather than {by}: {sql}");
        assert_eq!(self.state().await, before, "{sql}");
    }

    async fn state(&self) -> Vec<(String, i64, i64)> {
        sqlx::query_as(
            "select state, (select count(*) from slot_quarantine where ended_by is null),
                    (select count(*) from slot_proof) from slot order by id",
        )
        .fetch_all(&self.pool)
        .await
        .expect("readable")
    }

    async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
            .fetch_one(&self.pool)
            .await
            .expect(sql)
    }

    fn quarantine(n: u32) -> String {
        let id = slot(n);
        format!(
            "insert into slot_quarantine (slot_id, code, reason, since) values ({id}, 'wipe_unproved', 'why', {NOW});
             update slot set state = 'quarantined', quarantine_no = (select max(no) from slot_quarantine where slot_id = {id})
             where id = {id};"
        )
    }

    /// A wipe of this slot's disk; `figures` may spoil it.
    fn wipe(n: u32, disk: u32, task: &str, clean: bool, figures: &str) -> String {
        format!(
            "insert into slot_proof (slot_id, task_id, op_id, kind, subject, clean, disk_serial, disk_wwn, disk_size_bytes,
                 proof, created_at)
             values ({id}, '{task}', '{OTHER_OP}', 'wipe', 'serial-{disk}', {clean}, 'serial-{disk}', 'wwn', 4096,
                 '{{\"verdict\":\"clean\",\"tool_rc\":0,\"markers_planted\":1024,\"markers_found\":0,\"signatures_found\":0,
                   \"blocks_not_zero\":0,\"method\":\"overwrite\",\"read_back_bytes\":4096}}'::jsonb || '{figures}'::jsonb, {NOW});",
            id = slot(n)
        )
    }

    fn untouched(n: u32, op: &str) -> String {
        format!(
            "insert into slot_proof (slot_id, task_id, op_id, kind, subject, clean, proof, created_at)
             values ({}, '{TASK}', '{op}', 'untouched', '', true, '{{}}', {NOW});",
            slot(n)
        )
    }

    /// Ends the open quarantine of a slot by a proof, and frees the slot.
    fn free_by(n: u32, proof: &str) -> String {
        let id = slot(n);
        format!(
            "update slot_quarantine set ended_by = {proof}, ended_at = {NOW} where slot_id = {id} and ended_by is null;
             update slot set state = 'free', quarantine_no = null, dirty_op = null where id = {id};"
        )
    }
}

const NEWEST: &str = "(select max(no) from slot_proof)";

#[tokio::test]
async fn a_quarantine_ends_by_a_clean_wipe_that_came_after_it_and_by_nothing_else() {
    let rows = Rows::new().await;
    // A clean proof of an earlier day, and one of the neighbour.
    rows.does(&Rows::wipe(1, 1, TASK, true, "{}")).await;
    let older = rows.number("select max(no) from slot_proof").await.to_string();
    rows.does(&Rows::quarantine(1)).await;
    rows.does(&Rows::wipe(2, 2, TASK, true, "{}")).await;
    let neighbours = rows.number("select max(no) from slot_proof").await.to_string();
    let id = slot(1);
    for to in [
        "free",
        "candidate",
        "reserved",
        "leased",
        "releasing",
        "rejected",
        "retired",
    ] {
        rows.refuses(&format!("update slot set state = '{to}' where id = {id};"), "slot_")
            .await;
        let pinned = format!("update slot set state = '{to}', quarantine_no = null where id = {id};");
        rows.refuses(&pinned, "slot_").await;
    }
    let free = format!("update slot set state = 'free', quarantine_no = null where id = {id};");
    rows.refuses(&free, "slot_quarantine_pins_slot").await;
    rows.refuses(&format!("delete from slot_quarantine; {free}"), "permission denied")
        .await;
    rows.refuses(&format!("delete from slot where id = {id};"), "foreign key")
        .await;
    rows.refuses(
        &format!("update slot_quarantine set slot_id = {}; {free}", slot(2)),
        "permission denied",
    )
    .await;
    rows.refuses(
        &format!("update slot_quarantine set since = now(); {free}"),
        "permission denied",
    )
    .await;
    let numbered =
        format!("insert into slot_quarantine (no, slot_id, code, reason, since) values (0, {id}, '', '', {NOW});");
    rows.refuses(&numbered, "permission denied").await;
    rows.refuses(&Rows::free_by(1, "999999"), "slot_quarantine_proof").await;
    rows.refuses(&Rows::free_by(1, &older), "check constraint").await;
    rows.refuses(&Rows::free_by(1, &neighbours), "slot_quarantine_proof")
        .await;
    // What is not a clean wipe of this disk.
    for figures in [
        r#"{"verdict":"dirty"}"#,
        r#"{"tool_rc":5}"#,
        r#"{"markers_planted":0}"#,
        r#"{"markers_found":1}"#,
        r#"{"signatures_found":1}"#,
        r#"{"blocks_not_zero":1}"#,
        r#"{"read_back_bytes":4095}"#,
        r#"{"read_back_bytes":null}"#,
        r#"{"method":null,"read_back_bytes":0}"#,
    ] {
        let forged =
            Rows::wipe(1, 1, "00000000-0000-0000-0000-0000000000be", true, figures) + &Rows::free_by(1, NEWEST);
        rows.refuses(&forged, "slot_proof_figures").await;
    }
    let second = "00000000-0000-0000-0000-0000000000be";
    let dirty = Rows::wipe(1, 1, second, false, r#"{"markers_found":3}"#);
    rows.refuses(&(dirty + &Rows::free_by(1, NEWEST)), "slot_quarantine_proof")
        .await;
    let untouched = Rows::untouched(1, OP) + &Rows::free_by(1, NEWEST);
    rows.refuses(&untouched, "slot_quarantine_proof").await;
    let elsewhere = Rows::wipe(1, 2, second, true, "{}") + &Rows::free_by(1, NEWEST);
    rows.refuses(&elsewhere, "slot_proof_disk").await;
    let nowhere = Rows::wipe(1, 1, OP, true, "{}") + &Rows::free_by(1, NEWEST);
    rows.refuses(&nowhere, "slot_proof_task_id").await;
    // The same signed wipe under a younger number.
    let again = Rows::wipe(1, 1, TASK, true, "{}") + &Rows::free_by(1, NEWEST);
    rows.refuses(&again, "duplicate key").await;
    let other_disk = format!("update slot set nvme_serial = 'serial-3' where id = {id};");
    rows.refuses(&other_disk, "permission denied").await;
    // And the way that there is.
    rows.does(&(Rows::wipe(1, 1, second, true, "{}") + &Rows::free_by(1, NEWEST)))
        .await;
    assert_eq!(rows.state().await[0].0, "free");
    rows.refuses("delete from slot_proof;", "permission denied").await;
    rows.refuses("update slot_proof set clean = true;", "permission denied")
        .await;
}

#[tokio::test]
async fn a_slot_cannot_be_in_quarantine_without_a_row_that_says_why() {
    let rows = Rows::new().await;
    let id = slot(1);
    rows.refuses(
        &format!("update slot set state = 'quarantined' where id = {id};"),
        "slot_in_quarantine",
    )
    .await;
    let made_up = format!("update slot set state = 'quarantined', quarantine_no = 4711 where id = {id};");
    rows.refuses(&made_up, "slot_names_quarantine").await;
    rows.does(&Rows::quarantine(1)).await;
    let twice = format!("insert into slot_quarantine (slot_id, code, reason, since) values ({id}, '', '', {NOW});");
    rows.refuses(&twice, "slot_quarantine_open").await;
}
