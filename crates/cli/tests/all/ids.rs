//! Ids by name and by their last characters, over several pages; never a guess.

use serde_json::{Value, json};

use crate::server::{Answer, Server};
use crate::town::{Home, Said, gpuaas, id_of, node, page};

/// One node per page, and each node by its exact id.
async fn fleet(nodes: Vec<Value>) -> Server {
    Server::start(move |asked, _| {
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        if path == "/v1/nodes" {
            let at = query.split_once("after=").map_or(0, |(_, after)| after.parse::<usize>().expect("our own cursor"));
            let next = (at + 1 < nodes.len()).then(|| (at + 1).to_string());
            return Answer::Json(200, page(&nodes[at..=at], next.as_deref()));
        }
        let found = nodes.iter().find(|node| path == format!("/v1/nodes/{}", id_of(node)));
        found.map_or_else(
            || Answer::Json(404, json!({"error": {"code": "not_found", "message": "no such node", "hint": null, "correlation_id": "c", "details": {}, "retry_after_s": null}})),
            |node| Answer::Json(200, node.clone()),
        )
    })
    .await
}

#[tokio::test]
async fn a_node_is_found_by_name_tail_and_whole_id() {
    let home = Home::new();
    let nodes = vec![node("gpu-1"), node("gpu-2"), node("gpu-3")];
    let wanted = id_of(&nodes[2]);
    let tail = wanted[wanted.len() - 8..].to_owned();
    let server = fleet(nodes).await;
    for typed in ["gpu-3", &format!("node_{tail}"), &tail, &wanted] {
        let said = gpuaas(&["node", "show", typed, "-o", "name"])
            .at(&server.url)
            .run(&home)
            .await;
        assert_eq!(
            (said.exit, said.out.trim_end(), said.err.as_str()),
            (0, wanted.as_str(), ""),
            "{typed}"
        );
    }
    // The whole id needs no list.
    let last = server.asked().pop().expect("asked");
    assert_eq!(
        (last.method.as_str(), last.path),
        ("GET", format!("/v1/nodes/{wanted}"))
    );
}

#[tokio::test]
async fn two_that_fit_are_an_error_that_shows_both() {
    let home = Home::new();
    let (mut first, mut second) = (node("gpu-1"), node("gpu-2"));
    first["id"] = "node_01000000000000000000abcde0".into();
    second["id"] = "node_02000000000000000000abcde0".into();
    let server = fleet(vec![first, second]).await;
    let said = gpuaas(&["node", "show", "node_abcde0"])
        .at(&server.url)
        .run(&home)
        .await;
    assert_eq!((said.exit, said.out.as_str()), (2, ""));
    assert!(said.err.starts_with("error[id_ambiguous]: "), "{}", said.err);
    for name in ["gpu-1", "gpu-2"] {
        assert!(said.err.contains(name), "{}", said.err);
    }
}

#[tokio::test]
async fn a_removed_node_gives_its_name_free() {
    let home = Home::new();
    let mut gone = node("gpu-1");
    gone["state"] = "removed".into();
    let here = node("gpu-1");
    let wanted = id_of(&here);
    let server = fleet(vec![gone, here]).await;
    let said = gpuaas(&["node", "show", "gpu-1", "-o", "name"])
        .at(&server.url)
        .run(&home)
        .await;
    assert_eq!(said.out.trim_end(), wanted);
}

#[tokio::test]
async fn what_is_not_there_is_exit_3_and_the_wrong_kind_exit_2() {
    let home = Home::new();
    let server = fleet(vec![node("gpu-1")]).await;
    let said = gpuaas(&["node", "show", "gpu-9"]).at(&server.url).run(&home).await;
    assert_eq!(said.exit, 3);
    assert!(
        said.err.starts_with("error[not_found]: no node \"gpu-9\"\n"),
        "{}",
        said.err
    );

    let missing = model::id::NodeId::new().to_string();
    assert_eq!(
        gpuaas(&["node", "show", &missing])
            .at(&server.url)
            .run(&home)
            .await
            .exit,
        3
    );

    let before = server.asked().len();
    let said = gpuaas(&["node", "show", "task_k3v9q2"])
        .at(&server.url)
        .run(&home)
        .await;
    assert_eq!(said.exit, 2);
    assert!(
        said.err
            .contains("task_k3v9q2 is the id of a task; a node is wanted here"),
        "{}",
        said.err
    );
    assert_eq!(server.asked().len(), before, "nobody had to be asked");
}

#[tokio::test]
async fn enrolling_a_known_name_asks_for_a_new_token_and_a_new_name_for_a_node() {
    let home = Home::new();
    let known = node("gpu-1");
    let id = id_of(&known);
    let server = Server::start(move |asked, _| match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", _) => Answer::Json(200, page(std::slice::from_ref(&known), None)),
        _ => Answer::Json(201, json!({"node": known, "token": "gpuaas-enrol-1.x", "command": "run me", "expires_at": "2026-01-01T00:00:00.000Z"})),
    })
    .await;
    let said = gpuaas(&["node", "enroll", "gpu-1"]).at(&server.url).run(&home).await;
    assert_eq!(said.exit, 0, "{}", said.err);
    assert!(said.out.contains("token\tgpuaas-enrol-1.x\n"), "{}", said.out);
    assert_eq!(
        server.asked().pop().map(|asked| asked.path),
        Some(format!("/v1/nodes/{id}/enroll"))
    );

    let said = gpuaas(&["node", "enroll", "gpu-1"])
        .at(&server.url)
        .on_a_terminal()
        .run(&home)
        .await;
    let lines: Vec<&str> = said.out.lines().map(str::trim).collect();
    for line in ["gpuaas-node-executor enroll -", "gpuaas-enrol-1.x"] {
        assert!(lines.contains(&line), "the token is no argument: {}", said.out);
    }

    let said = gpuaas(&["node", "enroll", "gpu-2", "--mode", "machine", "--serial", "S1"])
        .at(&server.url)
        .run(&home)
        .await;
    assert_eq!(said.exit, 0, "{}", said.err);
    let asked = server.asked().pop().expect("asked");
    assert_eq!(asked.path, "/v1/nodes");
    assert_eq!(
        asked.body,
        json!({"name": "gpu-2", "mode": "machine", "board_serial": "S1"})
    );

    let said = gpuaas(&["node", "enroll", "gpu-1", "--mode", "slice"])
        .at(&server.url)
        .run(&home)
        .await;
    assert_eq!(said.exit, 2);
}

async fn revoke(server: &Server, home: &Home, typed: &str) -> Said {
    let words = [
        "node", "cert", "gpu-07", "--revoke", typed, "--reason", "stolen", "--yes",
    ];
    gpuaas(&words).at(&server.url).run(home).await
}

#[tokio::test]
async fn a_certificate_is_named_by_the_beginning_of_its_serial() {
    let home = Home::new();
    let certificate = |serial: &str| json!({"serial": serial, "kind": "working"});
    let serials = [
        "4f1b2c00000000000000000000000001",
        "4f1b2d00000000000000000000000002",
        "4f1b2d10000000000000000000000003",
    ];
    let server = Server::start(
        move |asked, _| match (asked.method.as_str(), asked.path.contains("/certificates?")) {
            ("GET", true) => Answer::Json(200, page(&serials.map(certificate), None)),
            ("GET", false) => Answer::Json(200, page(&[node("gpu-07")], None)),
            _ => Answer::Json(200, node("gpu-07")),
        },
    )
    .await;
    let said = revoke(&server, &home, "4F1B2c").await;
    assert_eq!(said.exit, 0, "{}", said.err);
    let last = server.asked().pop().expect("asked");
    assert!(
        last.path.ends_with(&format!("/certificates/{}/revoke", serials[0])),
        "{}",
        last.path
    );
    let said = revoke(&server, &home, "4f1b2d").await;
    assert_eq!(said.exit, 2, "{}", said.err);
    assert!(
        said.err.contains(serials[1]) && said.err.contains(serials[2]),
        "{}",
        said.err
    );
    assert_eq!(revoke(&server, &home, "4f1b2e").await.exit, 3, "there is none");
    assert_eq!(revoke(&server, &home, "4f1b").await.exit, 2, "too little");
    // A whole one is not looked for.
    let before = server.asked().len();
    assert_eq!(revoke(&server, &home, serials[2]).await.exit, 0);
    assert!(
        server.asked()[before..]
            .iter()
            .all(|asked| !asked.path.contains("/certificates?"))
    );
}
