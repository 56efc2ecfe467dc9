//! The main walk: asked for, made, used, given back, wiped with proof; and the same key twice.

use model::api::{AllocationPhases, PhaseState, QuotaView};
use model::signal::Code;

use super::*;

async fn spans(market: &Market, id: AllocationId) -> Vec<(bool, bool)> {
    sqlx::query_as("select upper_inf(span), end_reason is null from usage_span where allocation_id = $1")
        .bind(id.uuid())
        .fetch_all(market.town.platform.apps[0].db.read())
        .await
        .expect("spans")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_is_rented_used_and_given_back_with_proof() {
    use AllocationState::{Active, Provisioning, Released, Releasing, Requested};
    let market = Market::open().await;
    let made = market.rents("one").await;
    assert!(made.simulated && made.state == Requested, "{made:?}");
    assert_eq!(market.rents("one").await.id, made.id, "the same key is the same wish");
    let other = AllocationCreate {
        name: Some("other".to_owned()),
        ..Market::wish()
    };
    let reused = market
        .api()
        .call_as("one", "/v1/allocations", &other)
        .await
        .expect("an answer");
    assert_eq!(reused.error().map(|error| error.code), Some(Code::IdempotencyKeyReused));
    let active = market.until(made.id, Active).await;
    assert_eq!(active.phases.len(), 17);
    assert!(
        active.phases.iter().all(|phase| phase.state == PhaseState::Done),
        "{:?}",
        active.phases
    );
    assert!(active.private_ip.is_some() && active.conditions.is_empty());
    assert_eq!(market.free().await, 7);
    assert_eq!(
        spans(&market, made.id).await,
        [(true, true)],
        "charged from readiness on"
    );
    eventually("its node's signature proves the time", async || {
        let proven: bool =
            sqlx::query_scalar("select proven_until > lower(span) from usage_span where allocation_id = $1")
                .bind(made.id.uuid())
                .fetch_one(market.town.platform.apps[0].db.read())
                .await
                .expect("a span");
        proven.then_some(()).ok_or("not a second of it")
    })
    .await;
    let late = market
        .api()
        .post::<AllocationView>(&format!("/v1/allocations/{}/cancel", made.id), &json!({}))
        .await;
    let refused = late.expect_err("it is active");
    let refused = refused.downcast_ref::<dev::api::Refused>().expect("an answer");
    assert_eq!(refused.code(), Some(Code::AllocationAlreadyActive));
    let releasing = market.verb(made.id, "release").await;
    assert!([Releasing, Released].contains(&releasing.state));
    assert_eq!(spans(&market, made.id).await, [(false, false)], "charging has stopped");
    market.verb(made.id, "release").await;
    market.until(made.id, Released).await;
    assert_eq!(
        market.moves(made.id).await,
        [Requested, Provisioning, Active, Releasing, Released]
    );
    market.tells_its_versions(made.id).await;
    assert_eq!(market.free().await, 8);
    let slot = market
        .slots()
        .await
        .into_iter()
        .find(|slot| slot.id == made.slot_ids[0]);
    assert!(slot.expect("its slot").wiped_at.is_some(), "wiped, with proof");
    let phases: AllocationPhases = market
        .api()
        .get(&format!("/v1/allocations/{}/phases", made.id))
        .await
        .expect("phases");
    assert_eq!((phases.provision.len(), phases.release.len()), (17, 10));
    let quota: QuotaView = market
        .api()
        .get(&format!("/v1/projects/{}/quota", made.project_id))
        .await
        .expect("a quota");
    assert_eq!((quota.slots_used, quota.allocations_used), (0, 0));
    market.close().await;
}
