//! What a person types to follow one allocation: it is told as it happens and over when the allocation is.

use std::sync::atomic::{AtomicU64, Ordering};

use base::testing::{PATIENCE, eventually};
use model::state::AllocationState;
use serde_json::{Value, json};

use super::typed::{lines, types};
use crate::allocations::Market;

#[tokio::test(flavor = "multi_thread")]
async fn following_an_allocation_survives_a_restart_and_ends_with_it() {
    let mut market = Market::open().await;
    // Typed at the replica that goes away; everything else is asked of the other.
    let api = market.api().at(&market.town.platform.public_urls[0]).expect("a URL");
    let url = market.town.platform.public_urls[1].clone();
    let id = market.rents("followed").await.id;
    market.until(id, AllocationState::Active).await;
    let words = format!("-o json allocation events {id} --follow");
    let (run, captured) = types(&market.town, api.token(), &url, &words);
    // It says nothing until something happens, so make things happen until it has heard of one.
    let ttl_s = AtomicU64::new(3600);
    eventually("it hears", async || {
        let body = json!({ "ttl_s": ttl_s.fetch_add(60, Ordering::Relaxed) });
        let path = format!("/v1/allocations/{id}/extend");
        let _: Value = api.post(&path, &body).await.expect("extended");
        captured.stdout().lines().next().map(drop).ok_or("nothing yet")
    })
    .await;

    // Away while the release begins.
    market.town.platform.stop_replica(1).await;
    let path = format!("/v1/allocations/{id}/release");
    let _: Value = api.post(&path, &json!({})).await.expect("accepted");
    market.town.platform.start_replica(1).await.expect("starts");
    let exit = tokio::time::timeout(PATIENCE, run).await.expect("it ends by itself");
    assert_eq!(exit.expect("no panic"), 0, "{}", captured.stderr());

    let told = lines(&captured, 2).await;
    let seqs: Vec<_> = told
        .iter()
        .map(|event| event["seq"].as_u64().expect("a number"))
        .collect();
    assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "{seqs:?}");
    let kinds: Vec<_> = told
        .iter()
        .map(|event| event["type"].as_str().expect("a type"))
        .collect();
    let moves: Vec<_> = kinds.iter().filter(|kind| **kind != "provisioning.extended").collect();
    assert_eq!(
        moves,
        [&"provisioning.releasing", &"provisioning.released"],
        "{kinds:?}"
    );
    assert_eq!(
        kinds.last(),
        Some(&"provisioning.released"),
        "and nothing after the end"
    );
    assert!(told.iter().all(|event| event["subject"]["id"] == id.to_string()));

    // Of what has ended before nothing comes, and nobody waits for it.
    let words = format!("allocation events {id} --follow");
    let (late, said) = types(&market.town, api.token(), &url, &words);
    let exit = tokio::time::timeout(PATIENCE, late).await.expect("it ends by itself");
    assert_eq!((exit.expect("no panic"), said.stdout().as_str()), (0, ""));
    assert!(said.stderr().contains("is released"), "{}", said.stderr());
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_stops_following_and_nothing_else() {
    let market = Market::open().await.unplug().await;
    let api = market.api();
    let id = market.rents("watched").await.id;
    let words = format!("allocation events {id} --follow");
    let (run, captured) = types(&market.town, api.token(), api.url(), &words);
    captured.interrupt();
    let exit = tokio::time::timeout(PATIENCE, run).await.expect("it ends");
    assert_eq!(exit.expect("no panic"), 130, "{}", captured.stderr());
    assert!(!market.shows(id).await.state.is_end(), "what was followed goes on");
    let words = format!("allocation events {} --follow", model::id::AllocationId::new());
    let (missing, said) = types(&market.town, api.token(), api.url(), &words);
    assert_eq!(missing.await.expect("ends"), 3, "{}", said.stderr());
    market.close().await;
}
