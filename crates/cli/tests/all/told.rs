//! What people hear after a verb: one sentence and what to type next. Programs get the object, as before.

use serde_json::{Value, json};

use crate::server::{Answer, Asked, Server};
use crate::town::{Home, Said, gpuaas, node, page};

const ALLOCATION: &str = "alloc_0000000000000000000000000g";
const SLOT: &str = "slot_0000000000000000000000000g";

/// One of each, as its verb answers.
async fn platform(state: &'static str) -> Server {
    let allocation = json!({
        "id": ALLOCATION, "name": "mine", "kind": "slice", "sku": "slice.h100.1", "node_name": "sim-a", "simulated": true,
        "state": state, "rate_micro_per_hour": 2_000_000, "currency": "USD", "ends_at": "2099-01-01T00:00:00.000Z",
        "slot_ids": [SLOT], "version": 1, "revision": 1,
    });
    let slot =
        json!({"id": SLOT, "node_name": "sim-a", "simulated": true, "state": state, "slot_index": 0, "blockers": []});
    let project = json!({"id": "proj_0000000000000000000000000g", "name": "demo"});
    let user = json!({"id": "user_0000000000000000000000000g", "name": "ada"});
    let quota = json!({"slots": 16, "slots_used": 2, "allocations": 8, "allocations_used": 1, "terminals": 10});
    Server::start(move |asked: &Asked, _| {
        let mut host = node("sim-a");
        host["state"] = json!(state);
        let (path, looks) = (asked.path.as_str(), asked.method == "GET");
        let one = match path {
            _ if path.ends_with("/quota") => quota.clone(),
            _ if path.starts_with("/v1/allocations") => allocation.clone(),
            _ if path.starts_with("/v1/nodes") => host,
            _ if path.starts_with("/v1/slots") => slot.clone(),
            _ if path.starts_with("/v1/users") => user.clone(),
            _ => project.clone(),
        };
        Answer::Json(200, if looks { page(&[one], None) } else { one })
    })
    .await
}

async fn types(server: &Server, words: &[&str]) -> Said {
    let home = Home::new();
    gpuaas(words).at(&server.url).on_a_terminal().run(&home).await
}

#[tokio::test]
async fn people_hear_what_happened_and_what_comes_next() {
    for (state, words, told) in [
        (
            "releasing",
            &["alloc", "release", "mine", "-y"][..],
            "alloc_00000g (mine) is being released: it is no longer charged, and its disk is wiped\n  \
             next: gpuaas allocation watch alloc_00000g\n",
        ),
        (
            "released",
            &["alloc", "release", "mine", "-y"],
            "alloc_00000g (mine) is released already: nothing was left to do\n  next: gpuaas allocation show alloc_00000g\n",
        ),
        (
            "requested",
            &["alloc", "create", "--sku", "slice.h100.1"],
            "alloc_00000g (mine) is requested: slice.h100.1 on sim-a (SIMULATED), 2.00 USD/h, charged from ready\n  \
             next: gpuaas allocation watch alloc_00000g\n",
        ),
        (
            "active",
            &["alloc", "stop", "mine"],
            "alloc_00000g (mine) is being switched off: it keeps its slots and stays charged\n  \
             next: gpuaas allocation show alloc_00000g\n",
        ),
        (
            "draining",
            &["node", "drain", "sim-a", "--reason", "x", "-y"],
            "sim-a (SIMULATED) is draining: nothing new is given out, what tenants have stays until it is released\n  \
             next: gpuaas node undrain sim-a\n",
        ),
        (
            "candidate",
            &["slot", "approve", "--node", "sim-a"],
            "slot_00000g of sim-a (SIMULATED) is approved and can be rented\n  next: gpuaas sku list\n",
        ),
        (
            "quarantined",
            &["slot", "quarantine", SLOT, "--reason", "x", "-y"],
            "slot_00000g of sim-a (SIMULATED) is quarantined: nobody gets it until it is wiped with proof\n  \
             next: gpuaas slot rewipe slot_00000g\n",
        ),
        (
            "",
            &["project", "quota", "set", "demo", "--slots", "16"],
            "demo may have at once: 16 slots (2 used), 8 allocations (1 used), 10 terminals\n",
        ),
        ("", &["user", "grant", "ada", "operator"], "ada is operator now\n"),
    ] {
        let said = types(&platform(state).await, words).await;
        assert_eq!((said.exit, said.out.as_str()), (0, told), "{words:?} {}", said.err);
    }
}

#[tokio::test]
async fn programs_get_the_object() {
    let (home, server) = (Home::new(), platform("active").await);
    let stop = |shape: &'static [&str]| gpuaas(&[&["alloc", "stop", "mine"], shape].concat()).at(&server.url);
    let said = stop(&["--json"]).run(&home).await;
    let object: Value = serde_json::from_str(&said.out).expect("the object");
    assert_eq!(object["id"], ALLOCATION);
    let said = stop(&[]).run(&home).await;
    assert!(said.out.starts_with(&format!("id\t{ALLOCATION}\n")), "{}", said.out);
    let said = stop(&["-o", "name"]).run(&home).await;
    assert_eq!(said.out, format!("{ALLOCATION}\n"));
    let said = stop(&["--columns", "name"]).on_a_terminal().run(&home).await;
    assert_eq!(said.out, "name  mine\n");
}

#[tokio::test]
async fn a_limit_is_taken_away_by_its_name_and_by_no_other() {
    let server = platform("active").await;
    let words = [
        "project",
        "quota",
        "set",
        "demo",
        "--reset",
        "max-ttl-hours",
        "--reset",
        "slots",
    ];
    let said = types(&server, &words).await;
    assert_eq!(said.exit, 0, "{}", said.err);
    let body = server.asked().pop().expect("asked").body;
    assert_eq!(body["reset"], json!(["max_ttl_hours", "slots"]));
    let said = types(&server, &["project", "quota", "set", "demo", "--reset", "hours"]).await;
    assert!(said.exit == 2 && said.err.contains("max-ttl-hours"), "{}", said.err);
}

#[tokio::test]
async fn a_quota_is_not_set_to_nothing_and_no_role_is_invented() {
    let server = platform("").await;
    let said = types(&server, &["project", "quota", "set", "demo"]).await;
    assert!(said.exit == 2 && said.err.contains("--max-ttl-hours"), "{}", said.err);
    for role in ["king", "project"] {
        let said = types(&server, &["user", "grant", "ada", role]).await;
        let wanted = "there are admin, operator, support, auditor and finance";
        assert!(said.exit == 2 && said.err.contains(wanted), "{}", said.err);
    }
    assert!(server.asked().is_empty());
}
