//! The key under which something is done once. Without it in the document nobody could ask for that from the document alone.

use base::http::{Access, KeyUse};
use control::{openapi, routes};
use http::Method;
use serde_json::{Value, json};

/// These demand a key.
const REQUIRED: [&str; 2] = ["/v1/allocations", "/v1/allocations/{id}/again"];

/// These are done once under one key, but nobody is answered again: what is told there is kept nowhere.
const TOLD_ONCE: [(&str, &str); 4] = [
    ("/v1/nodes", "the enrolment token is kept nowhere"),
    ("/v1/nodes/{id}/enroll", "the enrolment token is kept nowhere"),
    ("/v1/projects/{id}/tokens", "the token's secret is kept nowhere"),
    ("/v1/tokens", "the token's secret is kept nowhere"),
];

/// And these know of no key.
const NO_KEY: [(&str, &str); 1] = [("/auth/logout", "it ends the session that it comes in, once")];

fn key_of(document: &Value, path: &str) -> (Value, Value) {
    let post = document["paths"][path]["post"].clone();
    let all = post["parameters"].as_array().expect("parameters");
    let key = all.iter().find(|one| one["name"] == "Idempotency-Key").expect(path);
    (post.clone(), key.clone())
}

#[test]
fn every_route_that_does_something_takes_a_key_or_says_why_not() {
    let document = openapi::public();
    let (mut told_once, mut required, mut without, mut optional) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for route in routes::public_infos() {
        let (path, post) = (route.path, route.method == Method::POST);
        match route.key {
            KeyUse::Optional => optional += 1,
            KeyUse::Required => required.push(path),
            KeyUse::ToldOnce(why) => told_once.push((path, why)),
            KeyUse::None if post => without.push(path),
            KeyUse::None => continue,
        }
        assert!(post && matches!(route.access, Access::Scopes(_)), "{path}");
        if route.key != KeyUse::None {
            let (_, key) = key_of(&document, path);
            assert_eq!(key["required"], json!(route.key == KeyUse::Required), "{path}");
        }
    }
    told_once.sort_unstable();
    assert_eq!(
        (told_once.as_slice(), required.as_slice()),
        (&TOLD_ONCE[..], &REQUIRED[..])
    );
    assert_eq!(without, NO_KEY.map(|(path, _)| path));
    assert!(optional >= 40, "{optional}");
}

#[test]
fn whoever_reads_the_document_is_told_of_the_key() {
    let document = openapi::public();
    for (path, status) in [
        ("/v1/allocations", "202"),
        ("/v1/allocations/{id}/again", "202"),
        ("/v1/projects", "201"),
        ("/v1/keys", "201"),
    ] {
        let (post, key) = key_of(&document, path);
        assert_eq!(key["in"], "header");
        let accepted = &post["responses"][status]["headers"];
        assert!(accepted["Idempotency-Replayed"].is_object(), "{path}");
        for (status, code) in [
            ("400", "idempotency_key_missing"),
            ("409", "idempotency_in_flight"),
            ("422", "idempotency_key_reused"),
        ] {
            let told = post["responses"][status]["description"].as_str();
            assert!(told.is_some_and(|text| text.contains(code)), "{path}: {code}");
        }
    }
    let (post, key) = key_of(&document, "/v1/tokens");
    assert!(post["responses"]["201"]["headers"]["Idempotency-Replayed"].is_null());
    assert!(
        key["description"]
            .as_str()
            .is_some_and(|text| text.contains("kept nowhere"))
    );
}
