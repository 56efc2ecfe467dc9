//! Every route by which people ask for something to be done, from the route table: asked twice under one key, it answers
//! the second time what it had answered the first time.

use std::collections::BTreeSet;

use base::http::KeyUse;
use model::api::{AllocationView, CertificateView, NodeView, SlotView, TaskView, TokenCreated, TrustView};
use model::state::{AllocationState, SlotState};
use serde_json::{Value, json};

use super::*;
use crate::allocations::Market;

/// What a platform with one host and nothing amiss has no use for.
const NOT_HERE: [&str; 7] = [
    "/v1/allocations/{id}/retry",
    "/v1/allocations/{id}/repair",
    "/v1/nodes/{id}/clean",
    "/v1/slots/{id}/unreserve",
    "/v1/slots/{id}/disk-gone",
    "/v1/trust/delegation",
    "/v1/images/catalogue",
];

/// Routes of the table with what to ask there, each after what it needs.
async fn wishes(market: &Market) -> Vec<(&'static str, String, Value)> {
    let api = market.api();
    let project = market.rents("first").await.project_id;
    let (bea, _) = market.town.person("bea", Scope::Project).await;
    let mut rented = Vec::new();
    for key in ["first", "second", "third"] {
        let made = market.rents(key).await;
        rented.push(market.until(made.id, AllocationState::Active).await.id);
    }
    let token = |name: &str| json!({ "name": name, "scopes": ["project"], "days": 1 });
    let mine: TokenCreated = api.post("/v1/tokens", &token("mine")).await.expect("a token");
    let tokens = format!("/v1/projects/{project}/tokens");
    let of_project = json!({ "name": "ci", "role": "viewer", "days": 1 });
    let of_project: TokenCreated = api.post(&tokens, &of_project).await.expect("a token");
    let sku: Page<SkuView> = api.get("/v1/skus").await.expect("a list");
    let bare = market.town.add_node("bare").await.node.id;
    let free: Vec<SlotView> = market
        .slots()
        .await
        .into_iter()
        .filter(|slot| slot.state == SlotState::Free)
        .collect();
    let node = market.node;
    let certificates = format!("/v1/nodes/{node}/certificates");
    let certificates: Page<CertificateView> = api.get(&certificates).await.expect("a list");
    let trust: TrustView = api.get("/v1/trust").await.expect("shown");
    let why = json!({ "reason": "the test" });
    let none = json!({});
    let of = |noun: &str, id: &dyn ToString, verb: &str| format!("/v1/{noun}/{}/{verb}", id.to_string());
    vec![
        (
            "/v1/projects",
            "/v1/projects".to_owned(),
            json!({ "name": "fresh", "owner": "bea" }),
        ),
        (
            "/v1/projects/{id}/members",
            of("projects", &project, "members"),
            json!({ "user": "bea", "role": "member" }),
        ),
        (
            "/v1/projects/{id}/quota",
            of("projects", &project, "quota"),
            json!({ "slots": 9 }),
        ),
        (
            "/v1/projects/{id}/tokens/{token_id}/revoke",
            format!("{tokens}/{}/revoke", of_project.token.id),
            none.clone(),
        ),
        (
            "/v1/tokens/{id}/revoke",
            of("tokens", &mine.token.id, "revoke"),
            none.clone(),
        ),
        (
            "/v1/users/{id}/grant",
            of("users", &bea, "grant"),
            json!({ "role": "support" }),
        ),
        (
            "/v1/users/{id}/revoke",
            of("users", &bea, "revoke"),
            json!({ "role": "support" }),
        ),
        ("/v1/users/{id}/disable", of("users", &bea, "disable"), none.clone()),
        ("/v1/users/{id}/enable", of("users", &bea, "enable"), none.clone()),
        (
            "/v1/skus",
            "/v1/skus".to_owned(),
            json!(dev::demo::sku("slice.new", 1).expect("a SKU")),
        ),
        (
            "/v1/skus/{id}/price",
            of("skus", &sku.items[0].id, "price"),
            json!({ "price_micro_per_hour": 7 }),
        ),
        (
            "/v1/keys",
            "/v1/keys".to_owned(),
            json!({ "name": "new", "public_key": dev::slice::SSH_KEY }),
        ),
        (
            "/v1/allocations/{id}/extend",
            of("allocations", &rented[0], "extend"),
            json!({ "ttl_s": 3600 }),
        ),
        (
            "/v1/allocations/{id}/stop",
            of("allocations", &rented[0], "stop"),
            none.clone(),
        ),
        (
            "/v1/allocations/{id}/reboot",
            of("allocations", &rented[1], "reboot"),
            none.clone(),
        ),
        (
            "/v1/allocations/{id}/start",
            of("allocations", &rented[2], "start"),
            none.clone(),
        ),
        (
            "/v1/allocations/{id}/release",
            of("allocations", &rented[0], "release"),
            none.clone(),
        ),
        (
            "/v1/allocations/{id}/force-release",
            of("allocations", &rented[1], "force-release"),
            why.clone(),
        ),
        ("/v1/allocations/{id}/cancel", String::new(), none.clone()),
        ("/v1/slots/{id}/reject", of("slots", &free[0].id, "reject"), why.clone()),
        (
            "/v1/slots/{id}/approve",
            of("slots", &free[0].id, "approve"),
            none.clone(),
        ),
        (
            "/v1/slots/{id}/quarantine",
            of("slots", &free[1].id, "quarantine"),
            why.clone(),
        ),
        (
            "/v1/slots/{id}/rewipe",
            of("slots", &free[1].id, "rewipe"),
            none.clone(),
        ),
        ("/v1/nodes/{id}/probe", of("nodes", &node, "probe"), none.clone()),
        ("/v1/nodes/{id}/discover", of("nodes", &node, "discover"), none.clone()),
        ("/v1/tasks/{id}/cancel", String::new(), none.clone()),
        ("/v1/nodes/{id}/drain", of("nodes", &node, "drain"), why.clone()),
        ("/v1/nodes/{id}/undrain", of("nodes", &node, "undrain"), none.clone()),
        (
            "/v1/nodes/{id}/mode",
            of("nodes", &bare, "mode"),
            json!({ "mode": "slice" }),
        ),
        (
            "/v1/nodes/{id}/quarantine",
            of("nodes", &node, "quarantine"),
            why.clone(),
        ),
        (
            "/v1/nodes/{id}/unquarantine",
            of("nodes", &node, "unquarantine"),
            why.clone(),
        ),
        ("/v1/nodes/{id}/remove", of("nodes", &bare, "remove"), why.clone()),
        (
            "/v1/nodes/{id}/certificates/{serial}/revoke",
            format!("/v1/nodes/{node}/certificates/{}/revoke", certificates.items[0].serial),
            why.clone(),
        ),
        (
            "/v1/trust/rotate",
            "/v1/trust/rotate".to_owned(),
            json!({ "now": true }),
        ),
        (
            "/v1/trust/keys/{keyid}/revoke",
            format!("/v1/trust/keys/{}/revoke", trust.keys[0].keyid),
            why,
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_that_does_something_does_it_once_under_one_key() {
    let market = Market::open().await;
    let wishes = wishes(&market).await;
    let tried: BTreeSet<&str> = wishes.iter().map(|(route, _, _)| *route).collect();
    let all: BTreeSet<&str> = control::routes::public_infos()
        .iter()
        .filter(|route| route.key == KeyUse::Optional)
        .map(|route| route.path)
        .filter(|path| !NOT_HERE.contains(path))
        .collect();
    assert_eq!(tried, all, "a route that is not in the list, or no longer there");
    let market = market.unplug().await;
    let api = market.api();
    for (route, path, body) in wishes {
        let path = match route {
            // Nobody makes it meanwhile.
            "/v1/allocations/{id}/cancel" => {
                let made: AllocationView = market.rents("fourth").await;
                format!("/v1/allocations/{}/cancel", made.id)
            }
            // The one that was asked for last has no host to run on.
            "/v1/tasks/{id}/cancel" => {
                let tasks: Page<TaskView> = api.get("/v1/tasks?limit=1").await.expect("a list");
                format!("/v1/tasks/{}/cancel", tasks.items[0].id)
            }
            _ => path,
        };
        twice(&api, "once", &path, &body).await;
    }
    let node: NodeView = market.town.show_node(market.node).await;
    assert_eq!(node.name, "a");
    market.close().await;
}
