//! The key under which something is made once. Without it in the document nobody could make anything from that alone.

use control::openapi;
use serde_json::json;

#[test]
fn whoever_makes_an_allocation_is_told_of_the_key() {
    let document = openapi::public();
    for path in ["/v1/allocations", "/v1/allocations/{id}/again"] {
        let post = &document["paths"][path]["post"];
        let all = post["parameters"].as_array().expect("parameters");
        let key = all.iter().find(|one| one["name"] == "Idempotency-Key").expect(path);
        assert_eq!((&key["in"], &key["required"]), (&json!("header"), &json!(true)));
        let accepted = &post["responses"]["202"]["headers"];
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
}
