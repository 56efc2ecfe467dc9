//! Which moves exist, that an end is an end, and that nothing ends while it holds something.

use super::*;

/// The way to a state by moves that exist.
fn way_to(state: AllocationState) -> &'static [AllocationState] {
    use AllocationState::{Active, Cancelled, Failed, Provisioning, Released, Releasing, Requested, Unwinding};
    match state {
        Requested => &[],
        Provisioning => &[Provisioning],
        Unwinding => &[Unwinding],
        Active => &[Provisioning, Active],
        Releasing => &[Provisioning, Active, Releasing],
        Released => &[Provisioning, Active, Releasing, Released],
        Failed => &[Unwinding, Failed],
        Cancelled => &[Unwinding, Cancelled],
    }
}

#[tokio::test]
async fn only_the_moves_that_exist_can_be_made() {
    let rows = Rows::new().await;
    rows.does(&format!(
        "update quota set allocations = 1000, slots = 1000 where project_id = {PROJECT};"
    ))
    .await;
    let mut n = 0;
    for from in AllocationState::ALL {
        for to in AllocationState::ALL.iter().filter(|to| *to != from) {
            n += 1;
            rows.does(&Rows::allocation(n, 1)).await;
            for step in way_to(*from) {
                rows.does(&Rows::to(n, *step)).await;
            }
            if from.leads_to().contains(to) {
                rows.does(&Rows::to(n, *to)).await;
            } else if from.is_end() {
                rows.refuses(&Rows::to(n, *to), "allocation_final").await;
            } else {
                rows.refuses(&Rows::to(n, *to), "allocation_moves").await;
            }
        }
    }
    assert_eq!(n, 56);
}

#[tokio::test]
async fn what_was_agreed_stays_and_every_change_counts() {
    let rows = Rows::new().await;
    rows.does(&Rows::allocation(1, 1)).await;
    let one = id(1);
    for change in [
        "rate_micro_per_hour = 0",
        "slots = 0",
        "kind = 'machine'",
        "project_id = project_id, id = gen_random_uuid()",
    ] {
        let sql = format!("update allocation set {change}, version = version + 1 where id = {one};");
        rows.refuses(&sql, "allocation_pinned").await;
    }
    rows.refuses(
        &format!("update allocation set name = 'x' where id = {one};"),
        "allocation_version",
    )
    .await;
    rows.refuses(
        &format!("update allocation set version = version + 2 where id = {one};"),
        "allocation_version",
    )
    .await;
    let late = format!("update allocation set deadline_at = null, version = version + 1 where id = {one};");
    rows.refuses(&late, "allocation_deadline").await;
    let over = format!("update allocation set ended_at = {NOW}, version = version + 1 where id = {one};");
    rows.refuses(&over, "allocation_ended").await;
    let active = Rows::allocation(2, 1).replace("'requested'", "'active'");
    rows.refuses(&active, "allocation_begins").await;
    rows.refuses(
        &format!("delete from allocation where id = {one};"),
        "permission denied",
    )
    .await;
}

#[tokio::test]
async fn nothing_ends_while_it_holds_something() {
    let rows = Rows::new().await;
    let lease = |allocation: u32, slot: u32| {
        format!(
            "with made as (insert into lease (id, node_id, slot_id, allocation_id, since)
                           values (gen_random_uuid(), {NODE}, {}, {}, {NOW}) returning id)
             update slot set state = 'reserved', lease_id = made.id from made where slot.id = {};",
            id(slot),
            id(allocation),
            id(slot)
        )
    };
    let given = |allocation: u32, slot: u32| {
        format!(
            "insert into allocation_slot (allocation_id, slot_id, since) values ({}, {}, {NOW});",
            id(allocation),
            id(slot)
        )
    };
    rows.does(&Rows::allocation(1, 1)).await;
    rows.does(&Rows::allocation(2, 1)).await;
    rows.refuses(&given(1, 1), "allocation_slot_leased").await;
    rows.does(&format!("{}{}", lease(1, 1), given(1, 1))).await;
    rows.refuses(&given(2, 1), "allocation_slot_leased").await;
    rows.refuses(&lease(2, 1), "lease_slot_once").await;
    rows.does(&Rows::to(1, AllocationState::Unwinding)).await;
    rows.refuses(&Rows::to(1, AllocationState::Failed), "allocation_holds")
        .await;
    rows.refuses("update allocation_slot set ended_at = now();", "permission denied")
        .await;
    rows.does(&format!(
        "update lease set ended_at = {NOW} where slot_id = {0}; update slot set state = 'free', lease_id = null where id = {0};",
        id(1)
    ))
    .await;
    // Its lease is what counts: another has the slot before the end of the first is written down.
    rows.does(&format!("{}{}", lease(2, 1), given(2, 1))).await;
    rows.does(&Rows::to(1, AllocationState::Failed)).await;
    rows.refuses(&Rows::to(2, AllocationState::Failed), "allocation_moves")
        .await;
    let open = "select count(*) from allocation_slot where ended_at is null";
    assert_eq!(rows.number(open).await, 1);
}
