//! Bodies that are not what was asked for.

use std::collections::BTreeSet;

use dev::town::Town;
use http::Method;
use model::id::{NodeId, TokenId};
use model::signal::Code;
use serde_json::Value;

use super::{everything, raw};
use crate::EXE;
use crate::abuse::refused;

/// Every public route with a body, and an honest one for it.
pub(super) const TAKERS: [(&str, &str); 30] = [
    ("/v1/nodes", r#"{"name":"fine"}"#),
    ("/v1/nodes/{id}/enroll", "{}"),
    ("/v1/nodes/{id}/mode", r#"{"mode":"slice"}"#),
    ("/v1/nodes/{id}/drain", r#"{"reason":"a new disk"}"#),
    ("/v1/slots/{id}/reject", r#"{"reason":"broken"}"#),
    ("/v1/slots/{id}/quarantine", r#"{"reason":"odd"}"#),
    ("/v1/slots/{id}/unreserve", r#"{"reason":"forgotten"}"#),
    ("/v1/slots/{id}/disk-gone", r#"{"reason":"burnt"}"#),
    ("/v1/nodes/{id}/quarantine", r#"{"reason":"a look"}"#),
    ("/v1/nodes/{id}/unquarantine", r#"{"reason":"fine again"}"#),
    ("/v1/nodes/{id}/certificates/{serial}/revoke", r#"{"reason":"lost"}"#),
    ("/v1/nodes/{id}/remove", r#"{"reason":"sold"}"#),
    ("/v1/tokens", r#"{"name":"mine","scopes":["support"],"days":1}"#),
    ("/v1/users/{id}/grant", r#"{"role":"operator"}"#),
    ("/v1/users/{id}/revoke", r#"{"role":"operator"}"#),
    ("/v1/projects/{id}/tokens", r#"{"name":"ci","role":"viewer","days":1}"#),
    ("/v1/projects", r#"{"name":"fine"}"#),
    ("/v1/projects/{id}/members", r#"{"user":"ada","role":"viewer"}"#),
    ("/v1/projects/{id}/quota", r#"{"slots":1}"#),
    (
        "/v1/keys",
        r#"{"name":"mine","public_key":"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"}"#,
    ),
    (
        "/v1/skus",
        r#"{"name":"s","kind":"machine","gpu_model":"x","gpu_count":1,"slots":0,"vcpu":1,"memory_mib":1,"nvme_gib":1,"fabric":false,"images":[],"price_micro_per_hour":1,"currency":"USD"}"#,
    ),
    ("/v1/skus/{id}/price", r#"{"price_micro_per_hour":1}"#),
    ("/v1/allocations", r#"{"sku":"slice.h100.1"}"#),
    ("/v1/allocations/{id}/release", r#"{"reason":"over"}"#),
    ("/v1/allocations/{id}/force-release", r#"{"reason":"gone"}"#),
    ("/v1/allocations/{id}/extend", r#"{"ttl_s":3600}"#),
    ("/v1/trust/rotate", r#"{"now":true,"reason":"a look"}"#),
    ("/v1/trust/keys/{keyid}/revoke", r#"{"reason":"lost"}"#),
    (
        "/v1/trust/delegation",
        r#"{"delegation":{"payloadType":"x","payload":"e30=","signatures":[]}}"#,
    ),
    (
        "/v1/images/catalogue",
        r#"{"document":{"payloadType":"x","payload":"e30=","signatures":[]}}"#,
    ),
];

const JSON: Option<&str> = Some("application/json");

struct Sender<'a> {
    town: &'a Town,
    node: NodeId,
}

impl Sender<'_> {
    fn path(&self, route: &str) -> String {
        let id = match route.split('/').nth(2) {
            Some("slots") => model::id::SlotId::new().to_string(),
            Some("projects") => model::id::ProjectId::new().to_string(),
            Some("users") => model::id::UserId::new().to_string(),
            Some("skus") => model::id::SkuId::new().to_string(),
            Some("allocations") => model::id::AllocationId::new().to_string(),
            _ => self.node.to_string(),
        };
        let path = route.replace("{id}", &id).replace("{serial}", "4f");
        path.replace("{keyid}", "00112233445566778899aabbccddeeff")
    }

    async fn send(&self, route: &str, content_type: Option<&str>, body: &[u8]) -> wire::http::Response {
        let api = self.town.api();
        raw::post(api.url(), &self.path(route), api.token(), content_type, body).await
    }

    async fn refused(&self, route: &str, body: &str, code: Code) -> model::node_api::ErrorBody {
        refused(&self.send(route, JSON, body.as_bytes()).await, code)
    }
}

/// The list above is the table's own.
fn takers_are_all() {
    let document = control::openapi::public();
    let paths = document["paths"].as_object().expect("paths");
    let with_body = |item: &Value| item["post"]["requestBody"].is_object();
    let found: BTreeSet<&str> = paths
        .iter()
        .filter(|(_, item)| with_body(item))
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(found, TAKERS.iter().map(|(path, _)| *path).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_was_not_asked_for_is_refused_by_name() {
    takers_are_all();
    let town = Town::start(EXE).await;
    let node = town.add_node("there").await.node.id;
    let sender = Sender { town: &town, node };
    let before = everything(&town).await;
    for (route, honest) in TAKERS {
        misshapen(&sender, route, honest).await;
    }
    fields(&sender).await;
    assert_eq!(everything(&town).await, before);
    for (route, honest) in TAKERS {
        let answer = sender.send(route, JSON, honest.as_bytes()).await;
        // The node never enrolled, so it has nothing to revoke, no slots, and nothing to be drained of; all others do
        // what they are asked.
        let noun = route.split('/').nth(2).unwrap_or_default();
        let of_nobody = ["slots", "projects", "skus", "allocations", "users"].contains(&noun) && route.contains("{id}");
        let nothing_there = (route.ends_with("/revoke") || of_nobody) && answer.status == 404;
        if route == "/v1/allocations" {
            refused(&answer, Code::IdempotencyKeyMissing);
            continue;
        }
        if route.ends_with("/drain") {
            refused(&answer, Code::StateConflict);
            continue;
        }
        // The form is right, but no root has signed it.
        if route.ends_with("/delegation") {
            refused(&answer, Code::ManifestRejected);
            continue;
        }
        // And no operator this one.
        if route.ends_with("/catalogue") {
            refused(&answer, Code::CatalogueRejected);
            continue;
        }
        assert!(answer.status.is_success() || nothing_there, "{route}: {answer:?}");
    }
    assert_ne!(everything(&town).await, before, "the honest ones do something");
    town.end().await;
}

/// What no route takes.
async fn misshapen(sender: &Sender<'_>, route: &str, honest: &str) {
    let error = sender.refused(route, r#"{"nonsense":1}"#, Code::FieldInvalid).await;
    assert!(error.message.contains("nonsense"), "{error:?}");
    assert_eq!(error.details["field"], "nonsense");
    for body in ["", "{", "nonsense", "{'reason':'x'}", &format!("{honest} {honest}")] {
        sender.refused(route, body, Code::BodyMalformed).await;
    }
    for body in ["7", "null", "\"text\""] {
        sender.refused(route, body, Code::FieldInvalid).await;
    }
    let deep = format!("{{\"reason\":{}{}}}", "[".repeat(64), "]".repeat(64));
    let error = sender.refused(route, &deep, Code::BodyMalformed).await;
    assert!(error.message.contains("64"), "{error:?}");
    for depth in [100_000, 250_000] {
        sender.refused(route, &"[".repeat(depth), Code::BodyMalformed).await;
    }
    let large = format!("{{\"reason\":\"{}\"}}", "x".repeat(256 * 1024));
    let error = sender.refused(route, &large, Code::BodyTooLarge).await;
    assert_eq!(error.details["limit_bytes"], 256 * 1024);
    for content_type in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("application/jsonx"),
    ] {
        let answer = sender.send(route, content_type, honest.as_bytes()).await;
        let error = refused(&answer, Code::BodyMalformed);
        assert!(error.message.contains("application/json"), "{error:?}");
    }
    let not_text = sender.send(route, JSON, b"{\"reason\":\"\xff\xfe\"}").await;
    assert_eq!(not_text.status.as_u16() / 100, 4, "{not_text:?}");
}

/// Well-formed, and still not acceptable: the field is named.
async fn fields(sender: &Sender<'_>) {
    let long = "x".repeat(300);
    let token = |name: &str, scopes: &str, days: i64| {
        let name = serde_json::to_string(name).expect("JSON");
        format!(r#"{{"name":{name},"scopes":{scopes},"days":{days}}}"#)
    };
    let reason = |text: &str| serde_json::json!({ "reason": text }).to_string();
    let serial = |text: &str| serde_json::json!({ "name": "fine", "board_serial": text }).to_string();
    // A NUL anywhere is nobody's field: it is refused before fields are looked at.
    for (route, body, field) in [
        ("/v1/nodes", r#"{"name":7}"#.to_owned(), "name"),
        ("/v1/nodes", r#"{"name":"a","name":"b"}"#.to_owned(), "name"),
        ("/v1/nodes", r#"{"name":""}"#.to_owned(), "name"),
        ("/v1/nodes", r#"{"name":"UPPER"}"#.to_owned(), "name"),
        ("/v1/nodes", r#"{"name":"-x"}"#.to_owned(), "name"),
        ("/v1/nodes", r#"{"name":"a\u0000b"}"#.to_owned(), "body"),
        ("/v1/nodes", format!(r#"{{"name":"{}"}}"#, &long[..64]), "name"),
        ("/v1/nodes", r#"{"name":"fine","mode":"round"}"#.to_owned(), "mode"),
        ("/v1/nodes", serial(""), "board_serial"),
        ("/v1/nodes", serial(&long), "board_serial"),
        ("/v1/nodes", serial("a\0b"), "body"),
        (
            "/v1/nodes/{id}/enroll",
            r#"{"board_serial":"\u0000"}"#.to_owned(),
            "body",
        ),
        ("/v1/nodes/{id}/mode", r#"{"mode":"Slice"}"#.to_owned(), "mode"),
        ("/v1/nodes/{id}/quarantine", reason(""), "reason"),
        ("/v1/nodes/{id}/quarantine", reason("   "), "reason"),
        ("/v1/nodes/{id}/quarantine", reason("two\nlines"), "reason"),
        ("/v1/nodes/{id}/quarantine", reason("\u{1b}[2J"), "reason"),
        ("/v1/nodes/{id}/remove", reason("a\0b"), "body"),
        ("/v1/nodes/{id}/remove", reason(&long), "reason"),
        ("/v1/tokens", token("mine", r#"["support"]"#, 0), "days"),
        ("/v1/tokens", token("mine", r#"["support"]"#, 366), "days"),
        ("/v1/tokens", token("mine", r#"["support"]"#, -1), "days"),
        ("/v1/tokens", token("mine", "[]", 1), "scopes"),
        ("/v1/tokens", token("mine", r#"["support","root"]"#, 1), "scopes[1]"),
        ("/v1/tokens", token("", r#"["support"]"#, 1), "name"),
        ("/v1/tokens", token(&long, r#"["support"]"#, 1), "name"),
        ("/v1/tokens", token("a\0b", r#"["support"]"#, 1), "body"),
        ("/v1/tokens", token("two\nlines", r#"["support"]"#, 1), "name"),
    ] {
        let error = sender.refused(route, &body, Code::FieldInvalid).await;
        assert_eq!(error.details["field"], field, "{route} {body}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_another_kind_is_named_and_not_looked_up() {
    let town = Town::start(EXE).await;
    let node = town.add_node("there").await.node.id;
    let before = everything(&town).await;
    let wrong = [
        TokenId::new().to_string().replace("tok_", "op_"),
        "there".to_owned(),
        node.to_string().to_uppercase(),
        format!("{node}0"),
        node.uuid().to_string(),
        "%00".to_owned(),
    ];
    let mut tried = 0;
    for route in control::routes::public_infos() {
        if !route.path.contains("{id}") {
            continue;
        }
        for id in &wrong {
            let path = route.path.replace("{id}", id).replace("{serial}", "4f");
            let body = (route.method == Method::POST).then(|| serde_json::json!({}));
            let answer = town.api().call(route.method.clone(), &path, body.as_ref()).await;
            let error = refused(&answer.expect("an answer"), Code::IdKindMismatch);
            let says = error.message.contains("_`") || error.message.contains("NUL");
            assert!(says, "what is expected: {error:?}");
            tried += 1;
        }
    }
    assert!(tried >= 12 * wrong.len(), "{tried}");
    let serial = format!("/v1/nodes/{node}/certificates/%00/revoke");
    let body = serde_json::json!({ "reason": "lost" });
    let answer = town.api().call(Method::POST, &serial, Some(&body)).await;
    let status = answer.expect("an answer").status;
    assert!(status.is_client_error(), "{status}");
    assert_eq!(everything(&town).await, before);
    town.end().await;
}
