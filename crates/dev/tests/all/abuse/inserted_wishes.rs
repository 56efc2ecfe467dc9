//! What the API signs anew out of its own database: a repair repeats a wish, and a slot is wiped for its last tenant. Both
//! repeat what was signed, and never what somebody has written beside it.

use dev::slice::SSH_KEY;
use model::api::TaskView;
use model::id::AllocationId;
use model::signal::Code;
use model::state::{AllocationState, TaskState};
use serde_json::json;

use super::inserted_tenants::{EVES_KEY, edited, hex, intent, store};
use super::{audited, refused, snapshot, sql};
use crate::allocations::{Market, machines};

const SIGNED: [&str; 2] = ["intent", "task"];

async fn asks(market: &Market, path: &str, code: Code) {
    let before = snapshot(&market.town, &SIGNED).await;
    let answer = market.api().call(http::Method::POST, path, Some(&json!({}))).await;
    audited(&market.town, &refused(&answer.expect("an answer"), code)).await;
    assert_eq!(snapshot(&market.town, &SIGNED).await, before, "nothing was signed");
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_12_repaired_wishes() {
    let market = machines::open().await;
    let id = machines::rents(&market, "one").await.expect("accepted").id;
    market.until(id, AllocationState::Active).await;
    let (real, wish) = intent(&market, id).await;
    let repair = format!("/v1/allocations/{id}/repair");
    let forged = edited(&wish, SSH_KEY, EVES_KEY);
    // The tenant's own intent with another key in its wish, and one that says so under its own digest.
    let put = async |wish: &[u8]| {
        let statement = format!(
            "update intent set wish = '{}' where allocation_id = '{}'",
            hex(wish),
            id.uuid()
        );
        sql(&market.town, &statement).await;
    };
    put(&forged).await;
    asks(&market, &repair, Code::IntentInvalid).await;
    put(&wish).await;
    let pointed = async |sha: String| {
        let statement = format!(
            "update allocation set intent_sha256 = '{sha}', version = version + 1 where id = '{}'",
            id.uuid()
        );
        sql(&market.town, &statement).await;
    };
    let own = super::inserted_tenants::text(
        &market,
        format!(
            "select '\\x' || encode(intent_sha256, 'hex') from allocation where id = '{}'",
            id.uuid()
        ),
    );
    let own = own.await.expect("its intent");
    let sha = store(&market, AllocationId::new(), &real, &forged).await;
    pointed(hex(sha.as_bytes())).await;
    asks(&market, &repair, Code::IntentInvalid).await;
    // A real one of somebody else's: nobody repairs one allocation with another's wish.
    let strangers = crate::tenant::Tenant::new("tenant", 20_001)
        .intent(&market.town, market.node)
        .await;
    pointed(hex(strangers.as_bytes())).await;
    asks(&market, &repair, Code::IntentInvalid).await;
    assert!(!market.host().contains(EVES_KEY));
    pointed(own).await;
    market.verb(id, "repair").await;
    market.verb(id, "release").await;
    market.until(id, AllocationState::Released).await;
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_12_wiped_wishes() {
    let market = Market::open().await;
    let gone = market.rents("gone").await.id;
    let slot = market.until(gone, AllocationState::Active).await.slot_ids[0];
    market.verb(gone, "release").await;
    market.until(gone, AllocationState::Released).await;
    let reason = json!({ "reason": "a look" });
    let quarantine = format!("/v1/slots/{slot}/quarantine");
    let _: serde_json::Value = market.api().post(&quarantine, &reason).await.expect("in quarantine");
    let victim = market.rents("victim").await.id;
    market.until(victim, AllocationState::Active).await;
    let rewipe = format!("/v1/slots/{slot}/rewipe");
    let (_, wish) = intent(&market, gone).await;
    let name = |id: AllocationId| format!("vm-{}", id.to_string().rsplit_once('_').expect("an id").1);
    let put = async |wish: &[u8]| {
        let statement = format!(
            "update intent set wish = '{}' where allocation_id = '{}'",
            hex(wish),
            gone.uuid()
        );
        sql(&market.town, &statement).await;
    };
    // The wipe of an empty slot, in the name of somebody else's machine.
    put(&edited(&wish, &name(gone), &name(victim))).await;
    asks(&market, &rewipe, Code::IntentInvalid).await;
    put(&wish).await;
    // A task that says that the slot was the victim's, under the victim's real intent.
    let inserted = format!(
        "insert into task (id, op_id, issue, node_id, node_epoch, seq, task_type, type_version, keyid, envelope,
                           payload_sha256, intent_sha256, state, actor_ref, correlation_id, created_at, start_by, ended_at, slots)
         select gen_random_uuid(), gen_random_uuid(), 0, node_id, node_epoch, 1000, task_type, type_version, keyid, envelope,
                payload_sha256, intent_sha256, 'failed', actor_ref, correlation_id, now(), now(), now(), array['{}'::uuid]
         from task where intent_sha256 = (select intent_sha256 from allocation where id = '{}')",
        slot.uuid(),
        victim.uuid()
    );
    sql(&market.town, &inserted).await;
    asks(&market, &rewipe, Code::IntentInvalid).await;
    assert!(market.host().contains(&name(victim)), "the victim's is there");
    sql(&market.town, "delete from task where seq = 1000").await;
    let task: TaskView = market.api().post(&rewipe, &json!({})).await.expect("an honest wipe");
    let ended = market.town.until_task(task.id, TaskState::is_end).await;
    assert_eq!(ended.state, TaskState::Succeeded, "{ended:?}");
    assert!(market.host().contains(&name(victim)), "the victim's is there");
    market.verb(victim, "release").await;
    market.until(victim, AllocationState::Released).await;
    market.close().await;
}
