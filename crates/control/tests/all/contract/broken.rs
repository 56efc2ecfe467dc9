//! The comparison can fail: every promise is broken once, and found out.

use control::{asyncapi, openapi};
use serde_json::{Value, json};

use super::{events_lost, routes_lost};

/// The present document after somebody's careless change, which must be found and named.
fn breaks(what: &str, named: &str, change: impl Fn(&mut Value)) {
    let old = openapi::public();
    let mut new = old.clone();
    change(&mut new);
    assert_ne!(old, new, "{what}: nothing was changed");
    let lost = routes_lost(&old, &new);
    assert!(lost.iter().any(|one| one.contains(named)), "{what}: {lost:?}");
    assert!(routes_lost(&new, &new).is_empty());
}

fn at<'a>(document: &'a mut Value, path: &str) -> &'a mut Value {
    document.pointer_mut(path).unwrap_or_else(|| panic!("no {path}"))
}

fn remove(document: &mut Value, path: &str, name: &str) {
    at(document, path)
        .as_object_mut()
        .expect("an object")
        .remove(name)
        .expect("it was there");
}

#[test]
fn every_careless_change_is_found() {
    const NODE: &str = "/components/schemas/NodeView";
    const WISH: &str = "/components/schemas/AllocationCreate";
    breaks("a route goes", "get /v1/nodes", |new| {
        remove(new, "/paths", "/v1/nodes")
    });
    breaks("a method goes", "post /v1/nodes: it is gone", |new| {
        remove(new, "/paths/~1v1~1nodes", "post")
    });
    breaks("a field goes", "name is gone", |new| {
        remove(new, &format!("{NODE}/properties"), "name")
    });
    breaks("a field may be left out", "name may be left out", |new| {
        let required = at(new, &format!("{NODE}/required")).as_array_mut().expect("a list");
        required.retain(|field| field != "name");
    });
    breaks("a type changes", "its type was", |new| {
        *at(new, &format!("{NODE}/properties/name/type")) = json!("integer");
    });
    breaks("a field may be null", "its type was", |new| {
        *at(new, &format!("{NODE}/properties/name/type")) = json!(["string", "null"]);
    });
    breaks("a wish needs more", "name has to be given", |new| {
        at(new, &format!("{WISH}/required"))
            .as_array_mut()
            .expect("a list")
            .push(json!("name"));
    });
    breaks("a wish is taken no longer", "ttl_s is gone", |new| {
        remove(new, &format!("{WISH}/properties"), "ttl_s")
    });
    breaks("a wish has a tighter bound", "maximum is tighter", |new| {
        *at(new, &format!("{WISH}/properties/ttl_s")) =
            json!({ "type": ["integer", "null"], "format": "uint64", "maximum": 5, "minimum": 0 });
    });
    breaks("a filter goes", "state is no longer taken", |new| {
        let parameters = at(new, "/paths/~1v1~1allocations/get/parameters")
            .as_array_mut()
            .expect("a list");
        parameters.retain(|one| one["name"] != "state");
    });
    breaks("a filter has to be given", "state has to be given", |new| {
        let parameters = at(new, "/paths/~1v1~1allocations/get/parameters")
            .as_array_mut()
            .expect("a list");
        parameters
            .iter_mut()
            .filter(|one| one["name"] == "state")
            .for_each(|one| one["required"] = json!(true));
    });
    breaks("a header has to be given", "Idempotency-Key", |new| {
        let key = at(new, "/paths/~1v1~1allocations/post/parameters/0").clone();
        assert_eq!(key["name"], "Idempotency-Key");
        at(new, "/paths/~1v1~1nodes/post")["parameters"] = json!([key]);
    });
    breaks("a body is needed", "it needs a body", |new| {
        let body = at(new, "/paths/~1v1~1nodes/post/requestBody").clone();
        at(new, "/paths/~1v1~1allocations~1{id}~1cancel/post")["requestBody"] = body;
    });
    breaks("a scope is not enough", "token operator is no longer enough", |new| {
        *at(new, "/paths/~1v1~1nodes/post/security") = json!([{ "token": ["admin"] }]);
    });
    breaks("a certificate is wanted", "token operator is no longer enough", |new| {
        *at(new, "/paths/~1v1~1nodes/post/security") = json!([{ "certificate": [] }]);
    });
    breaks(
        "everybody has to say who they are",
        "no longer open to everybody",
        |new| {
            *at(new, "/paths/~1v1~1version/get/security") = json!([{ "token": ["operator"] }]);
        },
    );
    breaks("a stream ends", "no longer text/event-stream", |new| {
        let content = at(new, "/paths/~1v1~1events/get/responses/200/content");
        let schema = content["text/event-stream"].clone();
        *content = json!({ "application/json": schema });
    });
    breaks("any word was fine", "one of a few words", |new| {
        at(new, &format!("{WISH}/properties/sku"))["enum"] = json!(["slice.h100.1"]);
    });
    breaks("a success changes its number", "it no longer answers 200", |new| {
        remove(new, "/paths/~1v1~1nodes/get/responses", "200");
    });
    breaks("a word is no longer said", "no longer one of its words", |new| {
        let scope = at(new, "/components/schemas");
        let with_words = scope
            .as_object_mut()
            .expect("schemas")
            .values_mut()
            .find_map(|one| one.get_mut("enum"));
        with_words.and_then(Value::as_array_mut).expect("words").pop();
    });
}

#[test]
fn a_header_that_was_always_demanded_may_be_written_down() {
    let new = openapi::public();
    let mut old = new.clone();
    let create = "/paths/~1v1~1allocations/post";
    remove(&mut old, create, "parameters");
    assert!(routes_lost(&old, &new).is_empty());
    *at(&mut old, &format!("{create}/summary")) = json!("Rent something");
    assert!(
        routes_lost(&old, &new)
            .iter()
            .any(|one| one.contains("Idempotency-Key"))
    );
}

#[test]
fn what_a_body_could_leave_out_or_carry_besides_stays_so() {
    let new = openapi::public();
    let mut old = new.clone();
    *at(&mut old, "/paths/~1v1~1nodes/post/requestBody/required") = json!(false);
    assert_eq!(routes_lost(&old, &new), ["post /v1/nodes: it needs a body"]);
    let mut old = new.clone();
    remove(&mut old, "/components/schemas/AllocationCreate", "additionalProperties");
    let lost = routes_lost(&old, &new);
    assert_eq!(lost, ["post /v1/allocations asked: other fields are no longer taken"]);
    // The other way round more is taken, and more may be told.
    assert!(routes_lost(&new, &old).is_empty());
    let mut told = new.clone();
    at(&mut told, "/components/schemas/NodeView")["additionalProperties"] = json!(false);
    assert!(routes_lost(&new, &told).is_empty());
}

#[test]
fn more_people_may_be_let_in() {
    let old = openapi::public();
    let mut new = old.clone();
    *at(&mut new, "/paths/~1v1~1nodes/post/security") =
        json!([{ "token": ["support", "operator"] }, { "certificate": [] }]);
    assert!(routes_lost(&old, &new).is_empty());
    *at(&mut new, "/paths/~1v1~1nodes/post/security") = json!([]);
    assert!(routes_lost(&old, &new).is_empty());
}

type Careless<'a> = &'a dyn Fn(&mut Value);

#[test]
fn careless_changes_of_events_are_found() {
    let old = asyncapi::document();
    let active = "/components/messages/provisioning.active";
    let changes: [(&str, &str, Careless); 7] = [
        ("goes", "it is gone", &|new| {
            remove(new, "/components/messages", "provisioning.active")
        }),
        ("is told no longer", "no longer told", &|new| {
            *at(new, &format!("{active}/x-emitted")) = json!(false)
        }),
        ("is told to others", "others hear", &|new| {
            *at(new, &format!("{active}/x-audience")) = json!("fleet")
        }),
        ("leaves the stream", "the stream has it no longer", &|new| {
            remove(new, "/channels/events/messages", "provisioning.active")
        }),
        ("hides a field", "reason is for operators only", &|new| {
            *at(new, &format!("{active}/x-operators-only")) = json!(["reason"])
        }),
        ("has data of another type", "reason: its type was", &|new| {
            *at(new, "/components/schemas/AllocationMoved/properties/reason/type") = json!("integer")
        }),
        ("loses a field", "reason is gone", &|new| {
            remove(new, "/components/schemas/AllocationMoved/properties", "reason");
        }),
    ];
    for (what, named, change) in changes {
        let mut new = old.clone();
        change(&mut new);
        let lost = events_lost(&old, &new);
        assert!(lost.iter().any(|one| one.contains(named)), "an event {what}: {lost:?}");
    }
    assert!(events_lost(&old, &old).is_empty());
}
