//! `gpuaas node probe`: the thread as it happens, on a terminal and off it, to its end, to its timeout, to Ctrl-C.

use serde_json::Value;

use crate::server::{Answer, Asked, Server};
use crate::town::{Home, gpuaas, node, page, task, task_id};

/// Answers the probe with `queued`, then each look with the next of these.
async fn thread(looks: Vec<Answer>) -> Server {
    let looks = std::sync::Mutex::new(looks.into_iter());
    Server::start(move |asked: &Asked, _| {
        if asked.path.ends_with("/probe") {
            return Answer::Json(202, task("queued", 1));
        }
        if asked.path.starts_with("/v1/nodes") {
            return Answer::Json(200, page(&[node("sim-a")], None));
        }
        looks.lock().expect("no panic").next().unwrap_or(Answer::Silence)
    })
    .await
}

fn good_day() -> Vec<Answer> {
    vec![
        Answer::Json(200, task("dispatched", 2)),
        Answer::Json(200, task("started", 4)),
        Answer::Json(200, task("succeeded", 5)),
    ]
}

const THREAD: &str = "\
queued\t2026-01-01T00:00:00.000Z\t0\t
dispatched\t2026-01-01T00:00:00.012Z\t12\t12
started\t2026-01-01T00:00:00.020Z\t20\t8
succeeded\t2026-01-01T00:00:01.293Z\t1293\t1273
";

#[tokio::test]
async fn a_pipe_gets_one_line_per_state_and_then_the_findings() {
    let home = Home::new();
    let server = thread(good_day()).await;
    let said = gpuaas(&["node", "probe", "sim-a"]).at(&server.url).run(&home).await;
    assert_eq!((said.exit, said.err.as_str()), (0, ""));
    assert!(
        said.out.starts_with(&format!(
            "task\t{}\nsimulated\ttrue\n{THREAD}kernel\t6.1.0\nmemory_free_mib\t20480\n",
            task_id()
        )),
        "{}",
        said.out
    );
    let asked = server.asked();
    assert_eq!(asked[1].method, "POST");
    assert_eq!(
        asked[2].path,
        format!("/v1/tasks/{}?changed_since=1&wait_s=10", task_id())
    );
    assert_eq!(
        asked[4].path,
        format!("/v1/tasks/{}?changed_since=4&wait_s=10", task_id())
    );
}

#[tokio::test]
async fn a_terminal_gets_times_and_the_label() {
    let home = Home::new();
    let server = thread(good_day()).await;
    let said = gpuaas(&["node", "probe", "sim-a"])
        .at(&server.url)
        .on_a_terminal()
        .var("TERM", "dumb")
        .run(&home)
        .await;
    assert_eq!(said.exit, 0, "{}", said.err);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(
        lines[0].ends_with("  diag.health_probe on sim-a (SIMULATED)"),
        "{}",
        said.out
    );
    assert_eq!(lines[1], "  queued          0ms");
    assert_eq!(lines[2], "  dispatched     12ms     +12ms");
    assert_eq!(lines[4], "  succeeded      1.2s     +1.2s");
    assert!(said.out.contains("\ngpus         2 × H100\n"), "{}", said.out);
    assert!(said.out.contains("\nmemory_free  20 GiB\n"), "{}", said.out);
}

#[tokio::test]
async fn programs_get_one_document_per_change() {
    let home = Home::new();
    let server = thread(good_day()).await;
    let said = gpuaas(&["node", "probe", "sim-a", "-o", "json"])
        .at(&server.url)
        .on_a_terminal()
        .run(&home)
        .await;
    let states: Vec<Value> = said
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a document per line")["state"].clone())
        .collect();
    assert_eq!(states, ["queued", "dispatched", "started", "succeeded"]);
    assert_eq!(said.err, "");
}

#[tokio::test]
async fn a_broken_connection_is_made_again_and_nothing_is_shown_twice() {
    let home = Home::new();
    let mut looks = good_day();
    looks.insert(1, Answer::Cut);
    looks.insert(1, Answer::Json(200, task("dispatched", 2)));
    looks.insert(1, Answer::Stranger(502));
    let server = thread(looks).await;
    let said = gpuaas(&["node", "probe", "sim-a"]).at(&server.url).run(&home).await;
    assert_eq!(said.exit, 0, "{}", said.err);
    assert!(said.out.contains(THREAD), "{}", said.out);
    assert_eq!(
        server
            .asked()
            .iter()
            .filter(|asked| asked.path.ends_with("/probe"))
            .count(),
        1
    );
}

#[tokio::test]
async fn a_failed_probe_fails_with_its_own_code() {
    let home = Home::new();
    let mut failed = task("failed", 2);
    failed["code"] = "host_command_failed".into();
    failed["detail"] = "lspci\x1b died".into();
    let server = thread(vec![Answer::Json(200, failed)]).await;
    let said = gpuaas(&["node", "probe", "sim-a"]).at(&server.url).run(&home).await;
    assert_eq!(said.exit, 1);
    assert!(
        said.err.starts_with("error[host_command_failed]: task_"),
        "{}",
        said.err
    );
    assert!(
        said.err.contains(" failed: lspci\\u{1b} died\n") && said.err.contains("correlation_id=c-1"),
        "{}",
        said.err
    );
}

#[tokio::test]
async fn patience_ends_with_exit_6_and_a_way_back() {
    let home = Home::new();
    let server = thread(vec![]).await;
    let said = gpuaas(&["node", "probe", "sim-a", "--timeout", "0"])
        .at(&server.url)
        .run(&home)
        .await;
    assert_eq!(said.exit, 6);
    assert!(said.err.starts_with("error[wait_stopped]: task_"), "{}", said.err);
    assert!(
        said.err.contains(&format!("gpuaas task show {} --wait", task_id())),
        "{}",
        said.err
    );
}

#[tokio::test]
async fn ctrl_c_detaches_and_cancels_nothing() {
    let home = Home::new();
    let server = thread(vec![]).await;
    let said = gpuaas(&["node", "probe", "sim-a"])
        .at(&server.url)
        .run_with(&home, |captured| captured.interrupt())
        .await;
    assert_eq!(said.exit, 130);
    assert!(
        said.err
            .contains(&format!("look again: gpuaas task show {} --wait", task_id())),
        "{}",
        said.err
    );
    assert!(server.asked().iter().all(|asked| !asked.path.contains("cancel")));
}

#[tokio::test]
async fn no_wait_only_asks() {
    let home = Home::new();
    let server = thread(vec![]).await;
    let said = gpuaas(&["node", "probe", "sim-a", "--no-wait", "-o", "name"])
        .at(&server.url)
        .run(&home)
        .await;
    assert_eq!((said.exit, said.out), (0, format!("{}\n", task_id())));
}
