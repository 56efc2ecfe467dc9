//! A limit once set is taken away again by its name, and is then as in a project that has just been made.

use http::Method;
use model::api::{ProjectCreate, ProjectView, QuotaView};
use model::signal::Code;
use serde_json::Value;

use super::*;
use crate::abuse::refused;

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_once_set_can_be_taken_away() {
    let town = Town::still(EXE).await;
    let api = town.api();
    let body = ProjectCreate {
        name: "demo".to_owned(),
        owner: None,
    };
    let made: ProjectView = api.post("/v1/projects", &body).await.expect("a project");
    let path = format!("/v1/projects/{}/quota", made.id);
    let new: QuotaView = api.get(&path).await.expect("a quota");
    let all = json!({
        "slots": 1, "slots_per_sku": 1, "allocations": 1, "terminals": 1, "max_ttl_hours": 1, "spend_per_day_micro": 1,
    });
    let set: QuotaView = api.post(&path, &all).await.expect("set");
    assert_eq!((set.slots, set.slots_per_sku, set.max_ttl_hours), (1, Some(1), Some(1)));
    assert_eq!(set.spend_per_day_micro, Some(1));
    // What an older client sends for what it does not say takes nothing away.
    let silent: Value = json!({ "slots": null, "slots_per_sku": null, "max_ttl_hours": null });
    let same: QuotaView = api.post(&path, &silent).await.expect("set");
    assert_eq!(
        (same.slots, same.slots_per_sku, same.max_ttl_hours),
        (1, Some(1), Some(1))
    );
    let one: QuotaView = api
        .post(&path, &json!({ "reset": ["max_ttl_hours"], "slots": 2 }))
        .await
        .expect("set");
    assert_eq!((one.slots, one.slots_per_sku, one.max_ttl_hours), (2, Some(1), None));
    let names = [
        "slots",
        "slots_per_sku",
        "allocations",
        "terminals",
        "max_ttl_hours",
        "spend_per_day_micro",
    ];
    let reset: QuotaView = api.post(&path, &json!({ "reset": names })).await.expect("reset");
    assert_eq!(
        QuotaView {
            version: new.version,
            ..reset
        },
        new
    );
    for wrong in [
        json!({ "reset": ["slots"], "slots": 3 }),
        json!({ "reset": ["everything"] }),
        json!({ "spend_per_day_micro": 1_000_000_000_000_001_u64 }),
        json!({ "spend_per_day_micro": -1 }),
    ] {
        let answer = api.call(Method::POST, &path, Some(&wrong)).await.expect("an answer");
        refused(&answer, Code::FieldInvalid);
    }
    town.end().await;
}

/// What is rented counts at the price that it was rented at, and what has ended no more.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_rented_at_once_costs_no_more_in_a_day_than_it_may() {
    let market = Market::open().await.unplug().await;
    let first = market.rents("one").await;
    let day = i64::try_from(first.rate_micro_per_hour).expect("a rate") * 24;
    let path = format!("/v1/projects/{}/quota", first.project_id);
    let limited = async |micro: i64| {
        let wish = json!({ "spend_per_day_micro": micro });
        let set: QuotaView = market.api().post(&path, &wish).await.expect("set");
        assert_eq!(set.spend_per_day_micro, Some(micro));
    };
    limited(2 * day - 1).await;
    let answer = market.api().call_as("two", "/v1/allocations", &Market::wish()).await;
    let answer = answer.expect("an answer");
    refused(&answer, Code::QuotaExceeded);
    let told: Value = answer.json().expect("an envelope");
    let wanted = json!({ "quota": "spend_per_day_micro", "limit": 2 * day - 1, "used": day, "requested": day });
    assert_eq!(told["error"]["details"], wanted, "{told}");
    let message = told["error"]["message"].as_str().expect("in words");
    assert!(message.contains("may spend 95.99 USD a day"), "{message}");
    limited(2 * day).await;
    market.rents("two").await;
    let answer = market.api().call_as("three", "/v1/allocations", &Market::wish()).await;
    refused(&answer.expect("an answer"), Code::QuotaExceeded);
    market.verb(first.id, "cancel").await;
    market.until(first.id, AllocationState::Cancelled).await;
    market.rents("four").await;
    market.close().await;
}
