//! Allocations as whoever waits for one sees them.

use serde_json::{Value, json};

use crate::server::{Answer, Server};
use crate::town::{Home, Said, gpuaas};

const ID: &str = "alloc_0000000000000000000000000g";

/// In this state since a minute after it was made.
fn allocation(state: &str, revision: i64) -> Value {
    json!({
        "id": ID, "name": "n3", "kind": "slice", "sku": "slice.h100.1", "node_name": "sim-a", "simulated": true, "state": state,
        "rate_micro_per_hour": 2_000_000, "currency": "USD", "state_since": "2026-01-01T00:01:00.000Z",
        "state_reason": "nothing is held any more", "code": null, "detail": null, "conditions": [], "phases": [],
        "correlation_id": "c-1", "created_at": "2026-01-01T00:00:00.000Z", "version": revision, "revision": revision,
    })
}

/// One answer after the other; the last one stays.
async fn shows(answers: Vec<Value>) -> Server {
    Server::start(move |_, before| Answer::Json(200, answers[before.min(answers.len() - 1)].clone())).await
}

async fn types(server: &Server, words: &[&str]) -> Said {
    let home = Home::new();
    gpuaas(words).at(&server.url).on_a_terminal().run(&home).await
}

#[tokio::test]
async fn what_was_given_back_is_an_answer_to_whoever_looks() {
    let server = shows(vec![allocation("released", 9)]).await;
    let said = types(&server, &["allocation", "watch", ID]).await;
    assert_eq!(said.exit, 0, "{}", said.err);
    let last = said.out.lines().last().unwrap_or_default();
    assert!(last.starts_with("released ") && last.ends_with(" ago"), "{}", said.out);
    let said = types(&server, &["allocation", "watch", ID, "-o", "tsv"]).await;
    let told = "since\t2026-01-01T00:01:00.000Z\nstate\treleased\n";
    assert!(said.exit == 0 && said.out.ends_with(told), "{}", said.out);
}

#[tokio::test]
async fn no_other_end_is_a_fault_of_ours() {
    let mut failed = allocation("failed", 9);
    failed["code"] = json!("image_digest_mismatch");
    for (answer, code) in [
        (allocation("cancelled", 9), "state_conflict"),
        (failed, "image_digest_mismatch"),
    ] {
        let said = types(&shows(vec![answer]).await, &["allocation", "watch", ID]).await;
        assert_eq!(said.exit, 1, "{}", said.out);
        assert!(said.err.starts_with(&format!("error[{code}]: ")), "{}", said.err);
    }
    // Whoever rents one wants to have it.
    let server = shows(vec![allocation("provisioning", 1), allocation("released", 9)]).await;
    let said = types(&server, &["allocation", "create", "--sku", "slice.h100.1", "--wait"]).await;
    assert_eq!(said.exit, 1, "{}", said.out);
    assert!(said.err.contains("error[state_conflict]: "), "{}", said.err);
}

#[tokio::test]
async fn a_release_says_how_long_it_took_and_no_price() {
    let mut released = allocation("released", 9);
    released["state_since"] = json!("2026-01-01T00:01:04.000Z");
    let server = shows(vec![allocation("releasing", 1), released]).await;
    let said = types(&server, &["allocation", "release", ID, "--wait", "--yes"]).await;
    assert_eq!(said.exit, 0, "{}", said.err);
    assert_eq!(
        said.out,
        "alloc_00000g  slice.h100.1 on sim-a (SIMULATED)   no longer charged\nreleased in 4.0s\n"
    );
}

#[tokio::test]
async fn whoever_gives_back_is_told_what_is_lost() {
    let (home, server) = (Home::new(), shows(vec![allocation("active", 1)]).await);
    for (verb, asked) in [
        (
            "release",
            "This will release alloc_00000g (n3): its disk is wiped. Go on? [y/N] ",
        ),
        (
            "cancel",
            "This will cancel alloc_00000g (n3): nothing of it is kept. Go on? [y/N] ",
        ),
    ] {
        let line = gpuaas(&["allocation", verb, ID]).at(&server.url).on_a_terminal();
        let said = line.stdin("n\n").run(&home).await;
        assert!(said.exit == 2 && said.err.starts_with(asked), "{}", said.err);
    }
    assert!(server.asked().iter().all(|asked| asked.method == "GET"));
}

#[tokio::test]
async fn a_condition_is_said_once_until_it_changes() {
    let step = |revision: i64, phase: &str, end: &str| {
        let mut seen = allocation("provisioning", revision);
        seen["phases"] = json!([{ "name": phase, "state": "running" }]);
        seen["conditions"] = json!([
            { "code": "expiring", "detail": format!("released at {end}") }, { "code": "unreachable", "detail": null },
        ]);
        seen
    };
    let server = shows(vec![
        step(1, "lease_acquire", "noon"),
        step(2, "lease_acquire", "noon"),
        step(3, "image_write", "noon"),
        step(4, "readiness", "one"),
        allocation("active", 5),
    ])
    .await;
    let said = types(&server, &["allocation", "watch", ID]).await;
    assert_eq!(said.exit, 0, "{}", said.err);
    let times = |words: &str| said.err.matches(words).count();
    assert_eq!(
        [
            times("expiring released at noon"),
            times("expiring released at one"),
            times("unreachable"),
            times("image_write"),
        ],
        [1; 4],
        "{}",
        said.err
    );
}

#[tokio::test]
async fn what_was_given_back_says_that_it_was_wiped_and_where_the_proof_is() {
    let mut released = allocation("released", 9);
    released["slot_ids"] = json!(["slot_0000000000000000000000000g", "slot_0000000000000000000000000h"]);
    released["wiped"] = json!([
        {"slot_id": "slot_0000000000000000000000000g", "method": "sanitize_crypto", "at": "2026-01-01T00:01:00.000Z"},
    ]);
    let said = types(&shows(vec![released]).await, &["allocation", "show", ID]).await;
    for wanted in [
        "slot_00000g was wiped by sanitize_crypto and proved clean",
        "proof: gpuaas slot proof slot_00000g",
        "slot_00000h is not proved clean",
    ] {
        assert!(said.out.contains(wanted), "{wanted} in {}", said.out);
    }
}

fn asked(state: &str, power: &str, revision: i64) -> Value {
    let mut seen = allocation("active", revision);
    seen["power"] = json!(power);
    seen["asked"] = json!({
        "task_id": "task_0000000000000000000000000g", "state": state, "since": "2026-01-01T00:02:00.000Z",
        "code": (state == "failed").then_some("guest_unreachable"),
        "detail": (state == "failed").then_some("it does not answer"),
    });
    seen
}

#[tokio::test]
async fn a_switch_is_waited_for_until_its_node_has_signed_it() {
    let settled = |power: &str| {
        let mut seen = asked("succeeded", power, 5);
        seen["asked"] = Value::Null;
        seen
    };
    let words = ["allocation", "stop", ID, "--wait"];
    for last in [asked("succeeded", "off", 4), settled("off")] {
        let answers = vec![asked("queued", "running", 2), asked("started", "running", 3), last];
        let said = types(&shows(answers).await, &words).await;
        let told = said.out.lines().last().unwrap_or_default();
        assert_eq!((said.exit, told), (0, "alloc_00000g (n3) is off"), "{}", said.err);
    }
    let answers = vec![asked("queued", "running", 2), asked("failed", "running", 3)];
    let said = types(&shows(answers).await, &words).await;
    assert_eq!(said.exit, 1, "{}", said.out);
    let told = "error[guest_unreachable]: what was asked of alloc_00000g failed: it does not answer";
    assert!(said.err.starts_with(told), "{}", said.err);
    // Somebody has given it back meanwhile: nobody will switch it.
    let answers = vec![asked("queued", "running", 2), allocation("releasing", 3)];
    let said = types(&shows(answers).await, &words).await;
    assert_eq!(said.exit, 1, "{}", said.out);
    // Whoever has waited long enough is not told to give it back.
    let server = shows(vec![asked("started", "running", 2)]).await;
    let said = types(&server, &["allocation", "reboot", ID, "--wait", "--timeout", "1s"]).await;
    assert_eq!(said.exit, 6, "{}", said.err);
    assert!(!said.err.contains("release"), "{}", said.err);
}
