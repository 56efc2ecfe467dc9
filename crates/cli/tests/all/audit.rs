//! The audit of a project, and all of any audit as lines of JSON.

use serde_json::{Value, json};

use crate::server::{Answer, Server};
use crate::town::{Home, gpuaas, page};

const PROJECT: &str = "proj_0000000000000000000000000g";

fn row(n: usize) -> Value {
    json!({
        "id": format!("aud_0000000000000000000000{n:03}g"), "at": "2026-01-01T00:00:00.000Z", "actor_kind": "token",
        "actor_id": "tok_0000000000000000000000000g", "action": "quota.set", "target_kind": "project", "target_id": PROJECT,
        "outcome": "ok", "code": null, "correlation_id": "c", "details": { "slots": n },
    })
}

/// Three rows, one on each page.
async fn registry() -> Server {
    Server::start(|asked, _| {
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        if !path.ends_with("/audit") {
            let project = json!({ "id": PROJECT, "name": "demo", "role": "owner", "created_at": "2026-01-01T00:00:00.000Z", "version": 1 });
            return Answer::Json(200, page(&[project], None));
        }
        let at = query.split_once("after=").map_or(0, |(_, after)| after.parse().expect("our own cursor"));
        let next = (at < 2).then(|| (at + 1).to_string());
        Answer::Json(200, page(&[row(at)], next.as_deref()))
    })
    .await
}

#[tokio::test]
async fn an_export_is_one_row_on_each_line_whatever_the_format() {
    let (home, server) = (Home::new(), registry().await);
    for words in [
        &["project", "audit", "export", "demo", "--action", "quota.set"][..],
        &[
            "project",
            "audit",
            "export",
            "demo",
            "--action",
            "quota.set",
            "-o",
            "table",
        ],
        &["audit", "export", "--action", "quota.set"],
    ] {
        let said = gpuaas(words).at(&server.url).run(&home).await;
        assert_eq!((said.exit, said.err.as_str()), (0, ""), "{words:?}");
        let lines: Vec<Value> = said
            .out
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(lines, [row(0), row(1), row(2)], "{words:?}");
    }
    let asked = server.asked();
    let read: Vec<_> = asked.iter().filter(|asked| asked.path.contains("/audit?")).collect();
    assert_eq!(read.len(), 9);
    assert!(
        read.iter()
            .all(|asked| asked.path.contains("limit=200&action=quota.set"))
    );
    assert!(
        read[0].path.starts_with(&format!("/v1/projects/{PROJECT}/audit?")),
        "{:?}",
        read[0]
    );
}

#[tokio::test]
async fn a_list_of_a_projects_audit_is_a_table() {
    let (home, server) = (Home::new(), registry().await);
    let words = [
        "project",
        "audit",
        "list",
        "demo",
        "--limit",
        "1",
        "--columns",
        "action,target",
    ];
    let said = gpuaas(&words).at(&server.url).run(&home).await;
    assert_eq!(
        (said.exit, said.out),
        (0, format!("quota.set\t{PROJECT}\n")),
        "{}",
        said.err
    );
}
