//! What must not happen twice, when nobody knows whether it has happened once.

use serde_json::{Value, json};

use crate::server::{Answer, Server};
use crate::town::{Home, Said, gpuaas};

const ID: &str = "alloc_0000000000000000000000000g";
const CREATE: [&str; 4] = ["allocation", "create", "--sku", "slice.h100.1"];

fn made() -> Answer {
    Answer::Json(
        202,
        json!({
            "id": ID, "name": null, "kind": "slice", "sku": "slice.h100.1", "node_name": "sim-a", "simulated": true,
            "state": "requested", "rate_micro_per_hour": 2_000_000, "currency": "USD", "conditions": [], "phases": [],
            "state_since": "2026-01-01T00:01:00.000Z", "created_at": "2026-01-01T00:00:00.000Z", "version": 1, "revision": 1,
        }),
    )
}

fn refused(status: u16, code: &str) -> Answer {
    let body: Value = json!({ "code": code, "message": "m", "hint": "h", "correlation_id": "c", "details": {} });
    Answer::Json(status, json!({ "error": body }))
}

async fn types(server: &Server, words: &[&str]) -> Said {
    gpuaas(words).at(&server.url).run(&Home::new()).await
}

/// The keys under which it was asked, in order.
fn keys(server: &Server) -> Vec<String> {
    let asked = server.asked().into_iter();
    asked.map(|asked| asked.idempotency_key.expect("a key")).collect()
}

#[tokio::test]
async fn what_nobody_answered_is_asked_again_under_the_same_key() {
    let server = Server::start(|_, before| match before {
        0 => Answer::Cut,
        1 => refused(409, "idempotency_in_flight"),
        2 => refused(503, "database_unavailable"),
        3 => refused(429, "rate_limited"),
        _ => made(),
    })
    .await;
    let said = types(&server, &CREATE).await;
    assert!(said.exit == 0 && said.out.contains(ID), "{said:?}");
    let keys = keys(&server);
    assert!(keys.len() == 5 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    // Another wish, another key.
    types(&server, &CREATE).await;
    assert_ne!(self::keys(&server)[5], keys[0]);
}

#[tokio::test]
async fn what_was_refused_is_not_asked_again() {
    for (status, code, exit) in [
        (409, "quota_exceeded", 5),
        (409, "idempotency_in_flight", 5),
        (429, "rate_limited", 1),
    ] {
        let server = Server::start(move |_, _| refused(status, code)).await;
        let said = types(&server, &CREATE).await;
        assert_eq!((said.exit, server.asked().len()), (exit, 1), "{said:?}");
    }
}

#[tokio::test]
async fn whoever_stops_waiting_hears_the_key_and_can_use_it() {
    let server = Server::start(|_, _| Answer::Silence).await;
    let url = server.url.clone();
    let (tell, captured) = tokio::sync::oneshot::channel();
    let running = tokio::spawn(async move {
        let home = Home::new();
        let line = gpuaas(&CREATE).at(&url);
        line.run_with(&home, |captured| drop(tell.send(captured))).await
    });
    let captured = captured.await.expect("it runs");
    while server.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    captured.interrupt();
    let said = running.await.expect("it ends");
    let key = &keys(&server)[0];
    assert_eq!(said.exit, 130, "{said:?}");
    assert!(said.err.contains(&format!("--idempotency-key {key}")), "{said:?}");

    let server = Server::start(|_, _| made()).await;
    let again = [&CREATE[..], &["--idempotency-key", key]].concat();
    assert_eq!(types(&server, &again).await.exit, 0);
    assert_eq!(keys(&server), std::slice::from_ref(key));
    let wrong = [&CREATE[..], &["--idempotency-key", "no spaces"]].concat();
    assert_eq!(types(&server, &wrong).await.exit, 2);
}
