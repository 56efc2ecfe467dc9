//! Verbs that delete say which version they have seen, and take another one for an answer.

use model::id::{KeyId, ProjectId, UserId};
use serde_json::json;

use crate::server::{Answer, Asked, Server};
use crate::town::{Home, gpuaas, page};

/// One of everything; what is deleted is of another version by now if `stale`.
async fn server(stale: bool) -> Server {
    let (key, project, user) = (KeyId::new(), ProjectId::new(), UserId::new());
    Server::start(move |asked: &Asked, _| {
        let path = asked.path.split('?').next().unwrap_or_default();
        match (asked.method.as_str(), path) {
            ("DELETE", _) if stale => Answer::Json(
                412,
                json!({"error": {"code": "version_conflict", "message": "it has changed", "details": {"version": 9}}}),
            ),
            ("DELETE", _) => Answer::Json(200, json!({})),
            (_, "/v1/keys") => Answer::Json(200, page(&[json!({"id": key, "name": "laptop", "version": 3})], None)),
            (_, path) if path.ends_with("/members") => Answer::Json(
                200,
                page(
                    &[json!({"user_id": user, "user": "bob", "role": "viewer", "version": 7})],
                    None,
                ),
            ),
            (_, path) if path.ends_with(&project.to_string()) => {
                Answer::Json(200, json!({"id": project, "name": "demo", "version": 4}))
            }
            _ => Answer::Json(200, page(&[json!({"id": project, "name": "demo", "version": 1})], None)),
        }
    })
    .await
}

fn deleted(server: &Server) -> Vec<Option<String>> {
    let all = server.asked().into_iter().filter(|asked| asked.method == "DELETE");
    all.map(|asked| asked.if_match).collect()
}

#[tokio::test]
async fn what_was_seen_is_what_is_deleted() {
    let home = Home::new();
    for (words, tag) in [
        (&["key", "remove", "laptop", "--yes"][..], "\"3\""),
        (&["project", "member", "remove", "demo", "bob", "--yes"], "\"7\""),
        (&["project", "delete", "demo", "--yes"], "\"4\""),
    ] {
        let fresh = server(false).await;
        let said = gpuaas(words).at(&fresh.url).run(&home).await;
        assert_eq!(said.exit, 0, "{}", said.err);
        assert_eq!(deleted(&fresh), [Some(tag.to_owned())], "{words:?}");

        let stale = server(true).await;
        let said = gpuaas(words).at(&stale.url).run(&home).await;
        assert_eq!(said.exit, 5, "{}", said.err);
        assert!(said.err.contains("error[version_conflict]"), "{}", said.err);
        assert_eq!(deleted(&stale).len(), 1, "asked once: {words:?}");
    }
}
