//! Another one like it: with the keys of whoever asks now, and under a key that stands for this one allocation.

use model::api::MemberAdd;
use model::intent::Wish;
use model::signal::Code;
use model::state::ProjectRole;
use model::value::SshKey;

use super::*;

/// Nobody's but Grace's.
const GRACES: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4g grace";

/// Whom the machine of an allocation lets in, as it was signed.
async fn lets_in(market: &Market, id: AllocationId) -> Vec<SshKey> {
    let wish: Vec<u8> = sqlx::query_scalar("select wish from intent where allocation_id = $1")
        .bind(id.uuid())
        .fetch_one(market.town.platform.apps[0].db.read())
        .await
        .expect("an intent");
    match serde_json::from_slice(&wish).expect("a wish") {
        Wish::Slice { params, .. } => params.ssh_public_keys,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_had_lets_in_whoever_asks_and_not_them() {
    let market = Market::open().await.unplug().await;
    let first = market.rents("one").await;
    let (_, grace) = market.town.person("grace", base::auth::Scope::Project).await;
    let seat = MemberAdd {
        user: "grace".to_owned(),
        role: ProjectRole::Member,
    };
    let members = format!("/v1/projects/{}/members", first.project_id);
    let _: serde_json::Value = market.api().post(&members, &seat).await.expect("a seat");
    let graces: SshKey = GRACES.parse().expect("a key");
    let wish = AllocationCreate {
        project: Some(first.project_id),
        ssh_public_keys: vec![graces.clone()],
        ..Market::wish()
    };
    let made: AllocationView = grace.post_as("one", "/v1/allocations", &wish).await.expect("accepted");
    let hers = [graces];
    assert_eq!(lets_in(&market, made.id).await, hers);
    market.verb(made.id, "cancel").await;
    market.until(made.id, AllocationState::Cancelled).await;

    let again = format!("/v1/allocations/{}/again", made.id);
    let own: AllocationView = grace.post_as("two", &again, &json!({})).await.expect("accepted");
    assert_eq!(lets_in(&market, own.id).await, hers, "her own wish stays as it was");
    let mine: AllocationView = market.api().post_as("two", &again, &json!({})).await.expect("accepted");
    assert_ne!(lets_in(&market, mine.id).await, hers, "and nobody else's");
    assert_eq!(
        lets_in(&market, mine.id).await,
        lets_in(&market, first.id).await,
        "the stored ones of whoever asked"
    );
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_used_for_one_is_not_an_answer_about_another() {
    let market = Market::open().await.unplug().await;
    let mut ended = Vec::new();
    for key in ["one", "two"] {
        let made = market.rents(key).await;
        market.verb(made.id, "cancel").await;
        market.until(made.id, AllocationState::Cancelled).await;
        ended.push(format!("/v1/allocations/{}/again", made.id));
    }
    let next: AllocationView = market
        .api()
        .post_as("k", &ended[0], &json!({}))
        .await
        .expect("accepted");
    let same: AllocationView = market
        .api()
        .post_as("k", &ended[0], &json!({}))
        .await
        .expect("accepted");
    assert_eq!(same.id, next.id, "the same wish");
    let other = market
        .api()
        .call_as("k", &ended[1], &json!({}))
        .await
        .expect("an answer");
    assert_eq!(
        other.error().map(|error| error.code),
        Some(Code::IdempotencyKeyReused),
        "{other:?}"
    );
    market.close().await;
}
