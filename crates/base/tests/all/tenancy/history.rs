//! History is the database's own: every move is in it, used time is opened and closed with the moves, and nobody writes
//! either by hand.

use super::*;

#[tokio::test]
async fn every_move_is_kept_and_used_time_is_opened_and_closed() {
    use AllocationState::{Active, Provisioning, Released, Releasing};
    let rows = Rows::new().await;
    rows.does(&Rows::allocation(1, 1)).await;
    for step in [Provisioning, Active] {
        rows.does(&Rows::to(1, step)).await;
    }
    let open =
        "select count(*) from usage_span where upper_inf(span) and end_reason is null and proven_until = lower(span)";
    assert_eq!(rows.number(open).await, 1);
    for step in [Releasing, Released] {
        rows.does(&Rows::to(1, step)).await;
    }
    let seconds =
        "select extract(epoch from upper(span) - lower(span))::bigint from usage_span where end_reason is not null";
    assert_eq!(
        rows.number(seconds).await,
        90,
        "from the readiness to the acceptance of the release"
    );
    assert_eq!(rows.number("select count(*) from allocation_transition").await, 5);
}

#[tokio::test]
async fn failed_and_cancelled_ones_cost_nothing() {
    use AllocationState::{Cancelled, Failed, Provisioning, Unwinding};
    let rows = Rows::new().await;
    for (n, way) in [
        (1, [Provisioning, Unwinding, Failed]),
        (2, [Provisioning, Unwinding, Cancelled]),
    ] {
        rows.does(&Rows::allocation(n, 1)).await;
        for step in way {
            rows.does(&Rows::to(n, step)).await;
        }
    }
    assert_eq!(rows.number("select count(*) from usage_span").await, 0);
}

#[tokio::test]
async fn nobody_writes_history_by_hand() {
    let rows = Rows::new().await;
    rows.does(&Rows::allocation(1, 1)).await;
    rows.does(&Rows::to(1, AllocationState::Provisioning)).await;
    rows.does(&Rows::to(1, AllocationState::Active)).await;
    let one = id(1);
    for sql in [
        "delete from allocation_transition;".to_owned(),
        "update allocation_transition set reason = 'other';".to_owned(),
        format!(
            "insert into allocation_transition (allocation_id, version, to_state, at, reason, actor, correlation_id)
             values ({one}, 99, 'released', {NOW}, '', '', gen_random_uuid());"
        ),
        "delete from usage_span;".to_owned(),
        "update usage_span set span = tstzrange(lower(span), lower(span)), end_reason = 'mine';".to_owned(),
        "update usage_span set rate_micro_per_hour = 0;".to_owned(),
        "update quota set slots_used = 0;".to_owned(),
        "update sku_version set price_micro_per_hour = 0;".to_owned(),
        "delete from sku_version;".to_owned(),
        "update sku set slots = 0;".to_owned(),
        "delete from workflow_step;".to_owned(),
        "drop trigger allocation_moves on allocation;".to_owned(),
        "alter table allocation disable trigger all;".to_owned(),
        "set session_replication_role = replica;".to_owned(),
    ] {
        let by = if sql.starts_with("drop") || sql.starts_with("alter") {
            "must be owner"
        } else {
            "permission denied"
        };
        rows.refuses(&sql, by).await;
    }
}
