//! Lists: cursors that are not ours, questions nobody understands, and pages that neither repeat nor lose a row.

use std::collections::HashSet;

use dev::town::Town;
use http::Method;
use model::api::Page;
use model::node_api::CertificateKind;
use model::signal::Code;
use serde_json::Value;

use super::everything;
use crate::EXE;
use crate::abuse::refused;
use crate::puppet::{Puppet, csr};

const LISTS: [&str; 5] = ["/v1/nodes", "/v1/slots", "/v1/tasks", "/v1/tokens", "/v1/audit"];
const NODES: usize = 7;

#[tokio::test(flavor = "multi_thread")]
async fn a_list_answers_only_what_it_understands() {
    let town = Town::start(EXE).await;
    for n in 0..3 {
        town.add_node(&format!("n{n}")).await;
    }
    let nodes: Page<Value> = town.api().get("/v1/nodes?limit=1").await.expect("a page");
    let cursor = nodes.next.expect("there is more");
    let before = everything(&town).await;
    for list in LISTS {
        for after in [
            "",
            "x",
            "AAAA",
            "%01",
            &cursor[1..],
            &format!("{cursor}A"),
            &cursor.to_lowercase(),
        ] {
            ask(&town, &format!("{list}?after={after}"), Code::CursorInvalid).await;
        }
        if list != "/v1/nodes" {
            ask(&town, &format!("{list}?after={cursor}"), Code::CursorInvalid).await;
        }
        for limit in ["0", "201", "-1", "x", "1e9", "99999999999999999999"] {
            ask(&town, &format!("{list}?limit={limit}"), Code::FieldInvalid).await;
        }
        ask(&town, &format!("{list}?colour=red"), Code::FieldInvalid).await;
        ask(&town, &format!("{list}?limit=1&limit=2"), Code::FieldInvalid).await;
    }
    for query in [
        "nodes?state=asleep",
        "slots?state=asleep",
        "slots?node=there",
        "tasks?state=asleep",
        "tasks?node=there",
        "tasks?type=%00",
        "audit?actor=%00",
        "audit?target=a%00b",
        "audit?correlation_id=7",
        "tokens?user=ada",
    ] {
        ask(&town, &format!("/v1/{query}"), Code::FieldInvalid).await;
    }
    assert_eq!(everything(&town).await, before);
    town.api()
        .get::<Page<Value>>(&format!("/v1/nodes?after={cursor}"))
        .await
        .expect("ours opens");
    town.end().await;
}

async fn ask(town: &Town, path: &str, code: Code) {
    let answer = town.api().call(Method::GET, path, None::<&()>).await;
    let answer = answer.expect("an answer");
    assert!(!answer.status.is_success(), "{path}: {answer:?}");
    refused(&answer, code);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_neither_repeat_nor_lose_a_row() {
    let town = Town::start(EXE).await;
    for n in 0..NODES {
        town.add_node(&format!("n{n}")).await;
        let body = serde_json::json!({ "name": format!("t{n}"), "scopes": ["support"], "days": 1 });
        town.api().post::<Value>("/v1/tokens", &body).await.expect("a token");
    }
    let node = Puppet::awake(&town, "busy").await;
    node.claim().await;
    let key = rcgen::KeyPair::generate().expect("a key");
    for _ in 0..2 {
        let request = csr(&key, None);
        let token = node.token(&request, town.db.clock().now()).signed(&node.keys.device);
        let issued = node.renew(node.id(), CertificateKind::Working, &request, token).await;
        assert!(issued.status.is_success(), "{issued:?}");
    }
    let certificates = format!("/v1/nodes/{}/certificates", node.id());
    for (list, least, key) in [
        ("/v1/nodes", NODES + 1, "id"),
        ("/v1/tokens", NODES + 1, "id"),
        ("/v1/audit", 3 * NODES, "id"),
        // Device and working certificate of an enrolment are made in one moment.
        (certificates.as_str(), 4, "serial"),
    ] {
        let whole = walk(&town, list, 200, key).await;
        assert!(whole.len() >= least, "{list} has {} rows", whole.len());
        assert_eq!(
            whole.iter().collect::<HashSet<_>>().len(),
            whole.len(),
            "{list} repeats"
        );
        for limit in [1, 2, 3, whole.len() - 1] {
            let walked = walk(&town, list, limit, key).await;
            // The audit and its readers go on; what was there keeps its order.
            let walked = &walked[walked.len().saturating_sub(whole.len())..];
            assert_eq!(walked, whole, "{list} by {limit}");
        }
    }
    town.end().await;
}

/// Every row of a list, page by page, each page from another replica.
async fn walk(town: &Town, list: &str, limit: usize, key: &str) -> Vec<String> {
    let (mut rows, mut after) = (Vec::new(), String::new());
    loop {
        let page: Page<Value> = town
            .api()
            .get(&format!("{list}?limit={limit}{after}"))
            .await
            .expect("a page");
        assert!(page.items.len() <= limit, "{list}: {} rows", page.items.len());
        rows.extend(
            page.items
                .iter()
                .map(|row| row[key].as_str().expect("a key").to_owned()),
        );
        match page.next {
            Some(next) => after = format!("&after={next}"),
            None => return rows,
        }
    }
}
