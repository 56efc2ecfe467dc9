//! `openapi.json`, `openapi.node.json`, `asyncapi.json` and `tasks.json` at the top of the tree come from the code. `UPDATE=1` writes
//! them; a person reads the diff.

use std::path::PathBuf;

use base::http::Access;
use control::{asyncapi, openapi, routes};
use model::task::TaskType;
use serde_json::{Value, json};

fn golden(name: &str, document: &Value) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    let fresh = format!("{document:#}\n");
    #[expect(
        clippy::disallowed_methods,
        reason = "UPDATE=1 is how a person asks for new golden files"
    )]
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &fresh).expect("the golden file can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == fresh,
        "{name} has changed; look at the difference: UPDATE=1 cargo test -p control, then git diff"
    );
}

#[test]
fn the_public_document_is_the_route_table() {
    golden("openapi.json", &openapi::public());
}

#[test]
fn the_node_document_is_the_route_table() {
    golden("openapi.node.json", &openapi::node());
}

#[test]
fn the_event_document_is_the_table() {
    let document = asyncapi::document();
    golden("asyncapi.json", &document);
    // What the platform promised before it was built; those that nothing tells yet say so.
    for (name, emitted) in [
        ("provisioning.requested", true),
        ("provisioning.force_release_requested", false),
        ("billing.low_balance_warning", false),
        ("billing.auto_release_pending", false),
        ("billing.balance_depleted", false),
        ("payments.balance_credited", false),
    ] {
        assert_eq!(document["components"]["messages"][name]["x-emitted"], emitted, "{name}");
    }
}

#[test]
fn the_task_document_is_the_registry() {
    let tasks: Vec<Value> = TaskType::ALL
        .iter()
        .map(|task_type| {
            let spec = task_type.spec();
            let (params, output) = task_type.schemas();
            json!({
                "type": spec.name, "version": spec.version, "summary": spec.summary, "purpose": spec.purpose,
                "max_runtime_s": spec.max_runtime_s, "running_per_node": spec.running_per_node,
                "changes_host": spec.changes_host, "destroys_data": spec.destroys_data,
                "params": params, "output": output,
            })
        })
        .collect();
    golden("tasks.json", &json!({ "tasks": tasks }));
}

#[test]
fn every_node_facing_route_lists_its_roles() {
    // The two where a token in the body is the identity; a third one has to be argued for here.
    let by_token = ["/internal/v1/enroll", "/internal/v1/nodes/{id}/certificates"];
    for route in routes::node_infos() {
        match route.access {
            Access::Roles(roles) => assert!(!roles.is_empty(), "{} lists no role", route.path),
            Access::Public => assert!(by_token.contains(&route.path), "{} is open to anybody", route.path),
            Access::Scopes(_) => panic!("{} is for people and does not belong here", route.path),
        }
    }
}

#[test]
fn every_public_route_says_who_and_what() {
    for route in routes::public_infos() {
        // What answers here, where to sign in, and signing in itself.
        let open = ["/v1/version", "/v1/auth", "/auth/login", "/auth/callback"].contains(&route.path);
        assert_eq!(matches!(route.access, Access::Public), open, "{}", route.path);
        assert!(
            matches!(route.access, Access::Public | Access::Scopes(_)),
            "{}",
            route.path
        );
        assert!(!route.summary.is_empty(), "{} has no summary", route.path);
    }
}
