//! The same list for people, for pipes and for programs.

use serde_json::{Value, json};

use crate::server::{Answer, Server};
use crate::town::{Home, gpuaas, id_of, node, page};

async fn two_nodes() -> (Server, Vec<Value>) {
    let mut simulated = node("sim-a");
    simulated["waiting"] = json!({"reason": "its first probe\nhas not run", "since": "2026-01-01T00:00:00.000Z", "verb": "gpuaas node probe sim-a"});
    let nodes = vec![simulated, node("gpu-7")];
    let document = page(&nodes, None);
    (
        Server::start(move |_, _| Answer::Json(200, document.clone())).await,
        nodes,
    )
}

#[tokio::test]
async fn people_get_a_table_with_labels_and_reasons() {
    let home = Home::new();
    let (server, nodes) = two_nodes().await;
    let said = gpuaas(&["node", "ls"]).at(&server.url).on_a_terminal().run(&home).await;
    assert_eq!(said.exit, 0, "{}", said.err);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(
        lines[0].starts_with("ID           NAME               STATE"),
        "{}",
        said.out
    );
    let id = id_of(&nodes[0]);
    assert!(
        lines[1].starts_with(&format!("node_{}  sim-a (SIMULATED)  ready", &id[id.len() - 6..])),
        "{}",
        said.out
    );
    assert!(!lines[2].contains("SIMULATED"), "{}", said.out);
    assert!(
        lines[3].starts_with("  sim-a waits for ") && lines[3].ends_with(": its first probe\\nhas not run"),
        "{}",
        said.out
    );
    assert_eq!(lines[4], "    try: gpuaas node probe sim-a");
}

#[tokio::test]
async fn pipes_get_full_ids_and_no_heading() {
    let home = Home::new();
    let (server, nodes) = two_nodes().await;
    let said = gpuaas(&["node", "list", "--columns", "id,name,simulated,for"])
        .at(&server.url)
        .run(&home)
        .await;
    let expected = format!(
        "{}\tsim-a\ttrue\t2026-01-01T00:00:00.000Z\n{}\tgpu-7\tfalse\t2026-01-01T00:00:00.000Z\n",
        id_of(&nodes[0]),
        id_of(&nodes[1])
    );
    assert_eq!(said.out, expected);

    let said = gpuaas(&["node", "list", "--columns", "colour"])
        .at(&server.url)
        .run(&home)
        .await;
    assert_eq!(said.exit, 2);
    assert!(said.err.contains("there are id, name, state"), "{}", said.err);
}

#[tokio::test]
async fn programs_get_the_document_with_everything_in_it() {
    let home = Home::new();
    let (server, nodes) = two_nodes().await;
    let said = gpuaas(&["node", "list", "-o", "json"]).at(&server.url).run(&home).await;
    // Fields of the next release included.
    assert_eq!(
        serde_json::from_str::<Value>(&said.out).expect("JSON"),
        page(&nodes, None)
    );
    let said = gpuaas(&["node", "list", "-o", "name"]).at(&server.url).run(&home).await;
    assert_eq!(said.out, format!("{}\n{}\n", id_of(&nodes[0]), id_of(&nodes[1])));
}

#[tokio::test]
async fn lists_are_read_page_by_page_up_to_the_limit() {
    let home = Home::new();
    let server = Server::start(|asked, before| {
        assert_eq!(asked.path.contains("after="), before > 0, "{}", asked.path);
        Answer::Json(200, page(&[node(&format!("n{before}"))], Some(&format!("c/{before}"))))
    })
    .await;
    let said = gpuaas(&["node", "list", "--limit", "3", "--columns", "name", "--state", "ready"])
        .at(&server.url)
        .run(&home)
        .await;
    assert_eq!(said.out, "n0\nn1\nn2\n");
    assert!(said.err.contains("there are more than these 3"), "{}", said.err);
    let paths: Vec<String> = server.asked().into_iter().map(|asked| asked.path).collect();
    assert_eq!(paths[0], "/v1/nodes?limit=3&state=ready");
    assert_eq!(paths[2], "/v1/nodes?limit=1&state=ready&after=c%2F1");
}

#[tokio::test]
async fn audit_rows_are_asked_for_by_the_whole_id() {
    let home = Home::new();
    let (server, nodes) = two_nodes().await;
    let id = id_of(&nodes[1]);
    let short = format!("node_{}", &id[id.len() - 6..]);
    let words = ["audit", "list", "--target", &short, "--outcome", "refused"];
    assert_eq!(gpuaas(&words).at(&server.url).run(&home).await.exit, 0);
    let last = server.asked().pop().map(|asked| asked.path);
    assert_eq!(last, Some(format!("/v1/audit?limit=100&target={id}&outcome=refused")));
}

#[tokio::test]
async fn the_version_needs_no_server() {
    let home = Home::new();
    let said = gpuaas(&["version"]).on_a_terminal().run(&home).await;
    assert_eq!(
        (said.exit, said.out),
        (0, format!("gpuaas {}\n", env!("CARGO_PKG_VERSION")))
    );

    let server = Server::start(|asked, _| {
        assert_eq!(asked.path, "/v1/version");
        Answer::Json(200, json!({"version": "9.9.9", "installation": "inst_x", "dev": true}))
    })
    .await;
    // Nobody has to be logged in for this.
    let said = gpuaas(&["version"])
        .var("GPUAAS_URL", &server.url)
        .on_a_terminal()
        .run(&home)
        .await;
    assert!(
        said.out
            .ends_with(&format!("server 9.9.9 at {}  DEV MODE\n", server.url)),
        "{}",
        said.out
    );
}
