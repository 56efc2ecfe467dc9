//! Leases and dirt: one tenant at a time, and nothing given on before it is clean.

use super::*;

fn lease(n: u32, of: Option<u32>) -> String {
    let of = of.map_or("null".to_owned(), slot);
    format!(
        "insert into lease (id, node_id, slot_id, allocation_id, since)
         values ('00000000-0000-0000-0001-{n:012}', '{NODE}', {of}, gen_random_uuid(), {NOW});"
    )
}

fn hold(n: u32, by: u32, state: &str) -> String {
    format!(
        "update slot set state = '{state}', lease_id = '00000000-0000-0000-0001-{by:012}' where id = {};",
        slot(n)
    )
}

/// What a claim does.
fn dirty(n: u32) -> String {
    let id = slot(n);
    format!(
        "insert into slot_dirt (slot_id, op_id, task_id, since) values ({id}, '{OP}', '{TASK}', {NOW});
         update slot set state = 'leased', dirty_op = '{OP}' where id = {id};"
    )
}

#[tokio::test]
async fn a_slot_has_one_lease_and_a_lease_holds_its_slot() {
    let rows = Rows::new().await;
    rows.refuses(&lease(1, Some(1)), "lease_pins_slot").await;
    rows.refuses(&hold(1, 1, "reserved"), "slot_names_lease").await;
    rows.does(&(lease(1, Some(1)) + &hold(1, 1, "reserved"))).await;
    rows.refuses(&(lease(2, Some(1)) + &hold(1, 2, "reserved")), "lease_slot_once")
        .await;
    let free = format!(
        "update slot set state = 'free', lease_id = null where id = {};",
        slot(1)
    );
    rows.refuses(&free, "lease_pins_slot").await;
    rows.refuses("delete from lease;", "permission denied").await;
    rows.does(&format!("update lease set ended_at = {NOW}; {free}")).await;
    rows.does(&(lease(2, Some(1)) + &hold(1, 2, "reserved"))).await;
}

#[tokio::test]
async fn slots_and_the_whole_node_are_never_leased_together() {
    let rows = Rows::new().await;
    rows.refuses(&lease(9, None), "lease_mode").await;
    rows.does(&(lease(1, Some(1)) + &hold(1, 1, "reserved"))).await;
    let machine = format!("update node set mode = 'machine' where id = '{NODE}';");
    rows.refuses(&machine, "lease_mode").await;
    rows.refuses(&(machine.clone() + &lease(9, None)), "lease_mode").await;
    let over = format!(
        "update lease set ended_at = {NOW}; update slot set state = 'free', lease_id = null where lease_id is not null;"
    );
    rows.does(&(over + &machine + &lease(9, None))).await;
    rows.refuses(&lease(10, None), "lease_node_once").await;
    rows.refuses(&(lease(2, Some(2)) + &hold(2, 2, "reserved")), "lease_mode")
        .await;
    rows.refuses(
        &format!("update node set mode = 'slice' where id = '{NODE}';"),
        "lease_mode",
    )
    .await;
}

#[tokio::test]
async fn what_was_used_is_free_only_after_a_proof() {
    let rows = Rows::new().await;
    let id = slot(1);
    rows.does(&(lease(1, Some(1)) + &hold(1, 1, "reserved"))).await;
    rows.refuses(
        &format!("update slot set state = 'leased' where id = {id};"),
        "slot_used",
    )
    .await;
    rows.does(&dirty(1)).await;
    let over = format!("update lease set ended_at = {NOW} where slot_id = {id};");
    let free = format!("{over} update slot set state = 'free', lease_id = null, dirty_op = null where id = {id};");
    rows.refuses(&free.replace(", dirty_op = null", ""), "slot_clean").await;
    rows.refuses(&free, "slot_dirt_pins_slot").await;
    rows.refuses(&format!("delete from slot_dirt; {free}"), "permission denied")
        .await;
    let end = |kind: &str, op: &str| {
        format!(
            "update slot_dirt set ended_by = {NEWEST}, ended_kind = '{kind}', ended_op = '{op}', ended_at = {NOW} where slot_id = {id}; {free}"
        )
    };
    // Untouched counts for the operation that says so of itself.
    rows.refuses(
        &(Rows::untouched(1, OTHER_OP) + &end("untouched", OTHER_OP)),
        "check constraint",
    )
    .await;
    rows.refuses(
        &(Rows::untouched(1, OTHER_OP) + &end("untouched", OP)),
        "slot_dirt_proof",
    )
    .await;
    rows.refuses(&(Rows::untouched(2, OP) + &end("untouched", OP)), "slot_dirt_proof")
        .await;
    let dirty_wipe = Rows::wipe(1, 1, TASK, false, r#"{"markers_found":1}"#) + &end("wipe", OTHER_OP);
    rows.refuses(&dirty_wipe, "slot_dirt_proof").await;
    rows.does(&(Rows::untouched(1, OP) + &end("untouched", OP))).await;
    // A tenant later, a wipe of a later operation.
    rows.does(&(lease(2, Some(1)) + &hold(1, 2, "reserved") + &dirty(1)))
        .await;
    let end = end("wipe", OTHER_OP).replacen("where slot_id", "where ended_by is null and slot_id", 1);
    rows.does(&(Rows::wipe(1, 1, TASK, true, "{}") + &end)).await;
    assert_eq!(rows.state().await[0].0, "free");
}

#[tokio::test]
async fn two_slots_in_service_share_no_device() {
    let rows = Rows::new().await;
    // Each shares one thing with a slot in service, and nothing else.
    let other = |state: &str, index: u32, gpu: &str, serial: &str| {
        let text = rows
            .new_slot(3, 1, state)
            .replace(", 1, 'gpu-1'", &format!(", {index}, '{gpu}'"));
        text.replace("'serial-1'", &format!("'{serial}'"))
    };
    rows.refuses(&other("free", 1, "gpu-7", "serial-7"), "slot_index_once")
        .await;
    rows.refuses(&other("free", 7, "gpu-1", "serial-7"), "slot_gpu_once")
        .await;
    rows.refuses(&other("free", 7, "gpu-7", "serial-1"), "slot_disk_once")
        .await;
    let candidate = other("candidate", 1, "gpu-7", "serial-7");
    rows.does(&candidate).await;
    rows.refuses(
        &format!("update slot set state = 'free' where id = {};", slot(3)),
        "slot_index_once",
    )
    .await;
}
