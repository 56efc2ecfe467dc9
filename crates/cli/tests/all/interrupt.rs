//! Ctrl-C, as a terminal sends it to the real program while it waits: it stops looking, says how to look again, and leaves
//! what it looked at alone.

use std::process::{Child, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::process::program;
use crate::server::{Answer, Server};
use crate::town::Home;

const ID: &str = "alloc_0000000000000000000000000g";

/// An allocation that stays in this state for as long as anybody looks.
async fn slow(state: &'static str) -> Server {
    Server::start(move |asked, _| {
        if asked.path.contains("changed_since") {
            return Answer::Silence;
        }
        let status = if asked.method == "POST" { 202 } else { 200 };
        Answer::Json(
            status,
            json!({
                "id": ID, "name": "n3", "kind": "slice", "sku": "slice.h100.1", "node_name": "sim-a", "simulated": true,
                "state": state, "rate_micro_per_hour": 2_000_000, "currency": "USD", "conditions": [],
                "phases": [], "state_since": "2026-01-01T00:01:00.000Z", "created_at": "2026-01-01T00:00:00.000Z",
                "version": 1, "revision": 1,
            }),
        )
    })
    .await
}

/// A process that is gone with its test, however that ends.
struct Running(Option<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Runs it until it waits for news, sends the signal, and reads what it says to that.
async fn interrupted(server: &Server, words: &[&str]) -> Output {
    let home = Home::new();
    let child = program()
        .args(words)
        .envs([("GPUAAS_URL", server.url.as_str()), ("GPUAAS_TOKEN", "gpt_test")])
        .envs(["HOME", "XDG_STATE_HOME", "GPUAAS_CONFIG_DIR"].map(|name| (name, home.path())))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let pid = Pid::from_child(&child);
    let mut running = Running(Some(child));
    let waits = async {
        while !server.asked().iter().any(|asked| asked.path.contains("changed_since")) {
            tokio::task::yield_now().await;
        }
    };
    let patience = Duration::from_secs(30);
    if tokio::time::timeout(patience, waits).await.is_err() {
        panic!("it never waits for news: {:?}", server.asked());
    }
    kill_process(pid, Signal::INT).expect("it runs");
    let ends = async {
        while let Ok(None) = running.0.as_mut().expect("ours").try_wait() {
            tokio::task::yield_now().await;
        }
    };
    if tokio::time::timeout(patience, ends).await.is_err() {
        panic!("Ctrl-C did not end {words:?}");
    }
    let child = running.0.take().expect("ours");
    child.wait_with_output().expect("what it said")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const CREATE: [&str; 5] = ["allocation", "create", "--sku", "slice.h100.1", "--wait"];
const WATCH: [&str; 3] = ["allocation", "watch", ID];

#[tokio::test]
async fn whoever_stops_looking_takes_nothing_back() {
    for (words, posts) in [(&CREATE[..], 1), (&WATCH, 0)] {
        let server = slow("provisioning").await;
        let said = interrupted(&server, words).await;
        assert_eq!(said.status.code(), Some(130), "{words:?}: {said:?}");
        assert_eq!(
            text(&said.stderr),
            format!(
                "detached; alloc_00000g goes on\n  look again: gpuaas allocation watch {ID}\n  take back:  gpuaas allocation release {ID}\n"
            ),
            "{words:?}"
        );
        assert_eq!(text(&said.stdout), format!("allocation\t{ID}\n"), "{words:?}");
        let asked = server.asked();
        assert_eq!(
            asked.iter().filter(|asked| asked.method != "GET").count(),
            posts,
            "{asked:?}"
        );
        assert!(asked.iter().all(|asked| !asked.path.ends_with("cancel")), "{asked:?}");
    }
}

#[tokio::test]
async fn a_program_learns_what_it_stopped_looking_at() {
    let server = slow("provisioning").await;
    let said = interrupted(&server, &[&CREATE[..], &["--json"]].concat()).await;
    assert_eq!(said.status.code(), Some(130), "{said:?}");
    let told: Value = serde_json::from_slice(&said.stderr).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    assert_eq!(told["error"]["code"], "wait_stopped");
    assert_eq!(told["error"]["details"]["allocation_id"], ID);
    let hint = told["error"]["hint"].as_str().unwrap_or_default();
    assert!(hint.contains(&format!("gpuaas allocation watch {ID}")), "{hint}");
}

#[tokio::test]
async fn nobody_is_told_to_give_back_what_is_on_its_way_out() {
    let server = slow("releasing").await;
    let said = interrupted(&server, &["allocation", "release", ID, "--wait", "--yes"]).await;
    assert_eq!(said.status.code(), Some(130), "{said:?}");
    let told = format!("detached; alloc_00000g goes on\n  look again: gpuaas allocation watch {ID}\n");
    assert_eq!(text(&said.stderr), told);
}
