//! What a tenant does with a slice that it has: switch it, extend it, let its time run out; and what an operator does with
//! one that has come to a standstill.

use dev::api::Refused;
use model::api::{ConditionCode, Page, QuotaView, SlotProofView};
use model::signal::Code;
use model::state::TaskState;
use model::task::vm_power::Power;
use serde_json::Value;

use super::*;

fn refused(answer: anyhow::Result<AllocationView>) -> Code {
    let error = answer.expect_err("refused");
    let refused = error.downcast_ref::<Refused>().expect("an answer");
    refused.code().expect("a code")
}

async fn try_verb(market: &Market, id: AllocationId, verb: &str, body: Value) -> anyhow::Result<AllocationView> {
    market.api().post(&format!("/v1/allocations/{id}/{verb}"), &body).await
}

async fn until_power(market: &Market, id: AllocationId, power: Power) {
    eventually(&format!("its node has signed {power:?}"), async || {
        let seen = market.shows(id).await.power;
        (seen == Some(power)).then_some(()).ok_or(seen)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_is_switched_off_and_on_and_is_shown_as_its_node_signs_it() {
    let market = Market::open().await;
    let made = market.rents("one").await;
    assert_eq!(
        refused(try_verb(&market, made.id, "stop", json!({})).await),
        Code::StateConflict
    );
    market.until(made.id, AllocationState::Active).await;
    let asked = market.verb(made.id, "stop").await;
    assert_eq!(asked.power, Some(Power::Running), "asked for is not done");
    let wish = asked.asked.as_ref().expect("what was asked");
    assert!(!wish.state.is_end() && wish.code.is_none(), "{wish:?}");
    let done = eventually("what was asked is done", async || {
        let seen = market.shows(made.id).await;
        match seen.asked.as_ref().map(|asked| asked.state) {
            None | Some(TaskState::Succeeded) => Ok(seen),
            other => Err(other),
        }
    })
    .await;
    assert_eq!(
        done.power,
        Some(Power::Off),
        "done, and shown as it is, in the same moment"
    );
    assert!(done.revision > asked.revision, "whoever waits for a change hears of it");
    until_switched(&market, made.id).await;
    assert_eq!(market.shows(made.id).await.power, Some(Power::Off), "signed is done");
    assert_eq!(market.free().await, 7, "a slice that is off keeps its slot");
    market.verb(made.id, "start").await;
    until_power(&market, made.id, Power::Running).await;
    let market = market.unplug().await;
    let before = market.verb(made.id, "reboot").await;
    assert_eq!(
        market.verb(made.id, "reboot").await.version,
        before.version,
        "asked once"
    );
    assert_eq!(
        refused(try_verb(&market, made.id, "stop", json!({})).await),
        Code::StateConflict
    );
    market.close().await;
}

/// Until what was asked for last has landed.
async fn until_switched(market: &Market, id: AllocationId) {
    eventually("its node has answered", async || {
        let open: bool = sqlx::query_scalar(
            "select exists (select from task where op_id in (select op_id from task t join allocation a
                 on a.power_task = t.id where a.id = $1) and ended_at is null)",
        )
        .bind(id.uuid())
        .fetch_one(market.town.platform.apps[0].db.read())
        .await
        .expect("an answer");
        (!open).then_some(()).ok_or("not yet")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_has_no_power_and_a_proof() {
    let market = Market::open().await;
    let made = market.rents("one").await;
    let active = market.until(made.id, AllocationState::Active).await;
    assert_eq!((active.power, active.wiped), (Some(Power::Running), Vec::new()));
    eventually("its node has said that it holds it", async || {
        let slots = market.slots().await;
        let held = slots
            .iter()
            .any(|slot| slot.id == made.slot_ids[0] && slot.held.is_some());
        held.then_some(()).ok_or("not yet")
    })
    .await;
    market.verb(made.id, "release").await;
    let released = market.until(made.id, AllocationState::Released).await;
    assert_eq!(released.power, None);
    let [wiped] = released.wiped.as_slice() else {
        panic!("{:?}", released.wiped)
    };
    assert_eq!(wiped.slot_id, made.slot_ids[0]);
    let slots = market.slots().await;
    let slot = slots.iter().find(|slot| slot.id == wiped.slot_id).expect("its slot");
    assert!(
        slot.held.is_none(),
        "the list from before is about somebody else: {:?}",
        slot.held
    );
    let path = format!("/v1/slots/{}/proofs", wiped.slot_id);
    let proofs: Page<SlotProofView> = market.api().get(&path).await.expect("proofs");
    let proof = proofs.items.iter().find(|proof| proof.kind == "wipe").expect("a wipe");
    assert_eq!((proof.task_id, proof.at), (wiped.task_id, wiped.at));
    assert!(proof.signed_by.is_some());
    // Whoever asks for more hears what there is to do instead.
    let error = try_verb(&market, made.id, "stop", json!({}))
        .await
        .expect_err("it is over");
    let body = error
        .downcast_ref::<Refused>()
        .and_then(|refused| refused.body.as_ref());
    let body = body.expect("an answer");
    assert_eq!(body.message, "the slice is released, not an active slice");
    let hint = body.hint.as_deref().unwrap_or_default();
    assert!(hint.contains("gpuaas allocation create"), "{hint}");
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_being_started_is_rebooted_later() {
    let market = Market::open().await;
    let made = market.rents("one").await;
    market.until(made.id, AllocationState::Active).await;
    market.verb(made.id, "stop").await;
    until_power(&market, made.id, Power::Off).await;
    let market = market.unplug().await;
    let before = market.verb(made.id, "start").await;
    for verb in ["reboot", "stop"] {
        assert_eq!(
            refused(try_verb(&market, made.id, verb, json!({})).await),
            Code::StateConflict,
            "{verb}"
        );
    }
    assert_eq!(
        market.verb(made.id, "start").await.version,
        before.version,
        "asked once"
    );
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_ends_when_its_time_is_over_unless_it_is_extended() {
    let market = Market::open().await;
    let wish = AllocationCreate {
        ttl_s: Some(3600),
        ..Market::wish()
    };
    let made: AllocationView = market
        .api()
        .post_as("one", "/v1/allocations", &wish)
        .await
        .expect("accepted");
    let active = market.until(made.id, AllocationState::Active).await;
    let first_end = active.ends_at.expect("an end");
    let quota = format!("/v1/projects/{}/quota", made.project_id);
    let _: QuotaView = market
        .api()
        .post(&quota, &json!({ "max_ttl_hours": 2 }))
        .await
        .expect("changed");
    let endless = market
        .api()
        .post::<QuotaView>(&quota, &json!({ "max_ttl_hours": 0 }))
        .await;
    let error = endless.expect_err("not what it does");
    let error = error.downcast_ref::<Refused>().expect("an answer");
    assert_eq!((error.status.as_u16(), error.code()), (422, Some(Code::FieldInvalid)));
    assert_eq!(
        refused(try_verb(&market, made.id, "extend", json!({ "ttl_s": 7201 })).await),
        Code::QuotaExceeded
    );
    let longer = try_verb(&market, made.id, "extend", json!({ "ttl_s": 7200 }))
        .await
        .expect("extended");
    assert!(longer.ends_at.expect("an end") > first_end);
    sqlx::query("update allocation set ends_at = now() - interval '1 second', version = version + 1 where id = $1")
        .bind(made.id.uuid())
        .execute(market.town.platform.apps[0].db.bookkeeping())
        .await
        .expect("its time is over");
    market.until(made.id, AllocationState::Released).await;
    assert_eq!(market.free().await, 8);
    assert_eq!(
        refused(try_verb(&market, made.id, "extend", json!({ "ttl_s": 600 })).await),
        Code::StateConflict
    );
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_still_says_so_and_is_tried_again() {
    let market = Market::open().await.unplug().await;
    let made = market.rents("one").await;
    market.until(made.id, AllocationState::Provisioning).await;
    assert_eq!(
        refused(try_verb(&market, made.id, "retry", json!({})).await),
        Code::StateConflict
    );
    sqlx::query("update allocation set deadline_at = now() - interval '1 second', version = version + 1 where id = $1")
        .bind(made.id.uuid())
        .execute(market.town.platform.apps[0].db.bookkeeping())
        .await
        .expect("it is late");
    let stuck = eventually("somebody notices", async || {
        let seen = market.shows(made.id).await;
        let found = seen
            .conditions
            .iter()
            .find(|one| one.code == ConditionCode::Stuck)
            .cloned();
        found.ok_or(seen.conditions)
    })
    .await;
    assert!(stuck.verb.contains("retry"), "{stuck:?}");
    let again = market.verb(made.id, "retry").await;
    assert!(
        !again.conditions.iter().any(|one| one.code == ConditionCode::Stuck),
        "{again:?}"
    );
    assert_eq!(again.state, AllocationState::Provisioning);
    market.verb(made.id, "cancel").await;
    market.until(made.id, AllocationState::Cancelled).await;
    market.close().await;
}
