//! Verbs that take something away: off a terminal only with `--yes`, on one only after a yes.

use crate::server::{Answer, Asked, Server};
use crate::town::{Home, gpuaas, id_of, node, page};

async fn one_node() -> Server {
    Server::start(|asked: &Asked, _| match asked.method.as_str() {
        "GET" => Answer::Json(200, page(&[node("gpu-1")], None)),
        _ => Answer::Json(200, node("gpu-1")),
    })
    .await
}

fn posts(server: &Server) -> Vec<Asked> {
    server
        .asked()
        .into_iter()
        .filter(|asked| asked.method == "POST")
        .collect()
}

#[tokio::test]
async fn off_a_terminal_nothing_happens_without_yes() {
    let home = Home::new();
    let server = one_node().await;
    for words in [
        &["node", "remove", "gpu-1", "--reason", "sold"][..],
        &["node", "quarantine", "gpu-1", "--reason", "odd"],
        &["node", "cert", "gpu-1", "--revoke", "0a", "--reason", "lost"],
        &["node", "drain", "gpu-1", "--reason", "a new disk"],
        &[
            "slot",
            "reject",
            "slot_0000000000000000000000000g",
            "--reason",
            "broken",
        ],
        &[
            "slot",
            "quarantine",
            "slot_0000000000000000000000000g",
            "--reason",
            "odd",
        ],
        &["slot", "rewipe", "slot_0000000000000000000000000g"],
        &["token", "rm", "gpu-1"],
        &["project", "delete", "gpu-1"],
        &["task", "cancel", "task_0000000000000000000000000g"],
        &[
            "trust",
            "revoke",
            "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
            "--reason",
            "stolen",
        ],
        &["trust", "rotate", "diag", "--now"],
    ] {
        let said = gpuaas(words).at(&server.url).run(&home).await;
        assert_eq!(said.exit, 2, "{words:?}");
        assert!(said.err.contains("--yes"), "{}", said.err);
    }
    assert!(posts(&server).is_empty());

    let said = gpuaas(&["node", "rm", "gpu-1", "--reason", "sold", "--yes"])
        .at(&server.url)
        .run(&home)
        .await;
    assert_eq!(said.exit, 0, "{}", said.err);
    let posts = posts(&server);
    assert!(posts[0].path.ends_with("/remove"));
    assert_eq!(posts[0].body, serde_json::json!({"reason": "sold"}));
}

#[tokio::test]
async fn on_a_terminal_the_person_is_asked() {
    let home = Home::new();
    let server = one_node().await;
    for (answer, exit, happened) in [("n\n", 2, 0), ("", 2, 0), ("y\n", 0, 1)] {
        let line = gpuaas(&["node", "quarantine", "gpu-1", "--reason", "odd"])
            .at(&server.url)
            .on_a_terminal();
        let said = line.stdin(answer).run(&home).await;
        assert_eq!((said.exit, posts(&server).len()), (exit, happened), "{answer:?}");
        assert!(
            said.err.starts_with("This will quarantine gpu-1. Go on? [y/N] "),
            "{}",
            said.err
        );
    }
}

#[tokio::test]
async fn what_is_for_good_says_so_and_which_one_it_is() {
    let home = Home::new();
    let gone = node("gpu-1");
    let short = format!("node_{}", &id_of(&gone)[id_of(&gone).len() - 6..]);
    let server = Server::start(move |asked: &Asked, _| match asked.path.as_str() {
        path if path.contains('?') => Answer::Json(200, page(std::slice::from_ref(&gone), None)),
        _ => Answer::Json(200, gone.clone()),
    })
    .await;
    let line = gpuaas(&["node", "remove", "gpu-1", "--reason", "sold"]).at(&server.url);
    let said = line.on_a_terminal().stdin("n\n").run(&home).await;
    assert_eq!((said.exit, posts(&server).len()), (2, 0));
    let asked = format!(
        "This will remove {short} (gpu-1) for good: its certificates are revoked, its name becomes free. Go on? [y/N] "
    );
    assert!(said.err.starts_with(&asked), "{}", said.err);
}
