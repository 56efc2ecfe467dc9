//! Somebody turns our database back: what a tenant has given back is asked for again there, with the wish and the intent
//! that the API has signed while it was wanted, and everything that says that it is over taken out of the rows.

use base::testing::eventually;
use model::api::{AuditRow, Page, TransitionView};
use model::id::{AllocationId, derive_op, derive_task};
use model::signal::Code;
use model::state::AllocationState;
use uuid::Uuid;

use super::inserted_tenants::text;
use super::sql;
use crate::allocations::Market;

fn vm(id: AllocationId) -> String {
    format!("vm-{}", id.to_string().rsplit_once('_').expect("an id of ours").1)
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_12_given_back_again() {
    let market = Market::open().await;
    let gone = market.rents("gone").await.id;
    market.until(gone, AllocationState::Active).await;
    market.verb(gone, "release").await;
    market.until(gone, AllocationState::Released).await;
    assert!(!market.host().contains(&vm(gone)));
    eventually("its slot is free", async || match market.free().await {
        8 => Ok(()),
        free => Err(free),
    })
    .await;
    turned_back(&market, gone).await;
    // It is signed once more, as the wish allows within its hour. The node knows the operation: it tells how it ended then,
    // and that counts for nothing now.
    let task = derive_task(derive_op(gone, "slice.vm_provision", 1), 0);
    let told = format!(
        "select max(code) from audit where target_id = '{task}' and action = 'task.result' and outcome = 'refused'"
    );
    eventually("its old result is refused", async || {
        match text(&market, told.clone()).await {
            Some(code) if code == Code::StaleFence.as_str() => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
    let row = format!(
        "select concat_ws(' ', state, started_at) from task where id = '{}'",
        task.uuid()
    );
    assert_eq!(
        text(&market, row).await.as_deref(),
        Some("dispatched"),
        "it was not begun"
    );
    assert_eq!(
        market.shows(gone).await.state,
        AllocationState::Provisioning,
        "nobody is charged"
    );
    assert!(!market.host().contains(&vm(gone)), "nothing came back");
    market.close().await;
}

async fn turned_back(market: &Market, gone: AllocationId) {
    let (lease, id) = (Uuid::new_v4(), gone.uuid());
    let statements = format!(
        "begin;
         set local session_replication_role = replica;
         delete from task where intent_sha256 is not null;
         update intent set withdrawn_at = null where allocation_id = '{id}';
         insert into lease (id, node_id, slot_id, allocation_id, since)
         select '{lease}', node_id, id, '{id}', now() from slot where id = (select slot_id from allocation_slot where allocation_id = '{id}');
         update slot set state = 'reserved', lease_id = '{lease}' where id = (select slot_id from lease where id = '{lease}');
         update allocation set state = 'requested', ended_at = null, cancel_asked_at = null, power = null,
             deadline_at = now() + interval '1 hour', version = version + 1 where id = '{id}';
         delete from workflow_step; delete from workflow;
         insert into workflow (id, flow, allocation_id, state, lease_until, due_at, created_at)
         values (gen_random_uuid(), 'allocation.provision', '{id}', 'running', now(), now(), now());
         commit"
    );
    sql(&market.town, &statements).await;
}

/// The limit of it: to take away needs no person's signature, since leases run out while nobody is there. Whoever writes
/// allocations can move one to its end; the database's own history has that move, and the audit what was signed for it.
#[tokio::test(flavor = "multi_thread")]
async fn an_allocation_that_somebody_moves_to_its_end_ends_and_everybody_sees_it() {
    let market = Market::open().await;
    let moved = market.rents("moved").await.id;
    market.until(moved, AllocationState::Active).await;
    let statements = format!(
        "update allocation set state = 'releasing', state_since = now(), state_reason = 'by hand', state_by = 'eve',
             deadline_at = now() + interval '1 hour', version = version + 1 where id = '{id}';
         insert into workflow (id, flow, allocation_id, state, lease_until, due_at, created_at)
         values (gen_random_uuid(), 'allocation.release', '{id}', 'running', now(), now(), now())",
        id = moved.uuid()
    );
    sql(&market.town, &statements).await;
    market.until(moved, AllocationState::Released).await;
    let path = format!("/v1/allocations/{moved}/transitions");
    let history: Page<TransitionView> = market.api().get(&path).await.expect("a history");
    let moves: Vec<_> = history.items.iter().map(|one| (one.to, one.actor.as_str())).collect();
    assert!(moves.contains(&(AllocationState::Releasing, "eve")), "{moves:?}");
    let task = derive_task(derive_op(moved, "slice.vm_release", 1), 0);
    let path = format!("/v1/audit?action=task.enqueue&target={task}");
    let audit: Page<AuditRow> = market.api().get(&path).await.expect("the audit is read");
    assert_eq!(audit.items.len(), 1, "what was signed for it");
    market.close().await;
}
