//! How failures are told: one format, one exit code each, an envelope for programs, nothing that moves a cursor.

use serde_json::{Value, json};

use crate::server::{Answer, Server};
use crate::town::{Home, gpuaas};

fn refusal(code: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message, "hint": "do this", "correlation_id": "0193f2c4", "details": {"a": 1}, "retry_after_s": null}})
}

#[tokio::test]
async fn a_refusal_is_told_in_three_lines_and_for_programs_in_one() {
    let home = Home::new();
    let server =
        Server::start(|_, _| Answer::Json(409, refusal("mode_conflict", "it\x1b[2J has\r\nallocations\u{2028}"))).await;
    let said = gpuaas(&["node", "list"]).at(&server.url).run(&home).await;
    assert_eq!((said.exit, said.out.as_str()), (5, ""));
    assert_eq!(
        said.err,
        "error[mode_conflict]: it\\u{1b}[2J has\\r\\nallocations\\u{2028}\n  hint: do this    more: gpuaas explain mode_conflict\n  correlation_id=0193f2c4\n"
    );

    let said = gpuaas(&["node", "list", "--json"]).at(&server.url).run(&home).await;
    assert_eq!((said.exit, said.out.as_str()), (5, ""));
    assert!(said.err.ends_with('\n') && said.err.lines().count() == 1 && said.err.is_ascii());
    let envelope: Value = serde_json::from_str(&said.err).expect("an envelope");
    assert_eq!(
        envelope,
        refusal("mode_conflict", "it\x1b[2J has\r\nallocations\u{2028}")
    );
}

#[tokio::test]
async fn who_is_not_logged_in_is_told_before_anything_is_sent() {
    let home = Home::new();
    let server = Server::start(|_, _| Answer::Json(401, refusal("token_expired", "it has expired"))).await;
    let said = gpuaas(&["node", "list"])
        .var("GPUAAS_URL", &server.url)
        .run(&home)
        .await;
    assert_eq!(said.exit, 4);
    assert!(said.err.starts_with("error[unauthenticated]: "), "{}", said.err);
    assert!(server.asked().is_empty());
    // Nowhere to go is a matter of logging in, too.
    assert_eq!(gpuaas(&["node", "list"]).run(&home).await.exit, 4);
    // A dead session.
    let said = gpuaas(&["auth", "status"]).at(&server.url).run(&home).await;
    assert_eq!(said.exit, 4);
    assert_eq!(server.asked()[0].authorization.as_deref(), Some("Bearer gpt_test"));
}

#[tokio::test]
async fn strangers_and_silence_are_named() {
    let home = Home::new();
    let server = Server::start(|asked, _| {
        if asked.path.starts_with("/v1/nodes") {
            Answer::Stranger(200)
        } else {
            Answer::Cut
        }
    })
    .await;
    let said = gpuaas(&["node", "list", "--json"]).at(&server.url).run(&home).await;
    assert_eq!(said.exit, 1);
    let envelope: Value = serde_json::from_str(&said.err).expect("an envelope");
    assert_eq!(envelope["error"]["code"], "server_unreachable");
    assert_eq!(envelope["error"]["details"]["reason"], "not_gpuaas");
    let said = gpuaas(&["task", "list"]).at(&server.url).run(&home).await;
    assert_eq!(said.exit, 1);
    assert!(said.err.contains("the connection broke"), "{}", said.err);
    // A port that nobody listens on: it was ours a moment ago.
    let url = server.url.clone();
    drop(server);
    tokio::task::yield_now().await;
    let said = gpuaas(&["node", "list"]).at(&url).run(&home).await;
    assert_eq!(said.exit, 1);
    assert!(said.err.starts_with("error[server_unreachable]: "), "{}", said.err);
}

#[tokio::test]
async fn wrong_usage_is_exit_2_in_both_shapes() {
    let home = Home::new();
    let said = gpuaas(&["node", "frobnicate"]).run(&home).await;
    assert_eq!(said.exit, 2);
    assert!(
        said.err.starts_with("error[usage_invalid]: unrecognized subcommand"),
        "{}",
        said.err
    );
    for words in [
        &["--json", "node", "mode", "x", "lease"][..],
        &["-o", "json", "node", "mode", "x", "lease"],
    ] {
        let said = gpuaas(words).run(&home).await;
        assert_eq!(said.exit, 2);
        let envelope: Value = serde_json::from_str(&said.err).expect("an envelope");
        assert_eq!(envelope["error"]["code"], "usage_invalid");
    }
}

#[tokio::test]
async fn a_broken_audit_chain_is_exit_7() {
    let home = Home::new();
    let server = Server::start(|_, before| {
        let broken = if before == 0 {
            Value::Null
        } else {
            json!({"pos": 7, "audit_id": null, "why": "hash differs"})
        };
        Answer::Json(
            200,
            json!({"sealed": 9, "unsealed": 1, "oldest_unsealed_ms": 400, "head": "ab", "broken": broken}),
        )
    })
    .await;
    assert_eq!(gpuaas(&["audit", "verify"]).at(&server.url).run(&home).await.exit, 0);
    let said = gpuaas(&["audit", "verify"]).at(&server.url).run(&home).await;
    assert_eq!(said.exit, 7);
    assert!(
        said.err
            .starts_with("error[audit_chain_broken]: the audit chain is broken at position 7: hash differs\n"),
        "{}",
        said.err
    );
}
