//! Text from outside that tries to be a log line, a field or a terminal command: through every field that a node or a
//! caller can fill, into the logs of the api and of an executor, in both formats, and out of the command line.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use cli::{Env, Tty};
use http::Method;
use model::dsse::Envelope;
use model::node_api::{NodeProbe, NodeProbeSchema, ProbedHop};
use model::outcome::Outcome;
use model::signal::Code;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::glass::Glass;
use crate::puppet::{Puppet, post};

/// In every forgery, so that it can be found again.
const MARK: &str = "forged7f3a";

/// What breaks a line, ends a JSON string, moves a cursor or turns the reading direction.
fn corpus() -> Vec<String> {
    [
        "\n2026-01-01T00:00:00Z ERROR MARK",
        "\r\n{\"at\":\"2000-01-01T00:00:00Z\",\"level\":\"error\",\"message\":\"MARK\"}",
        "\u{1b}[2J\u{1b}[1;31mMARK\u{1b}[0m",
        "\u{1b}]0;MARK\u{7}",
        "\u{9b}31mMARK\u{2028}\u{2029}\u{85}",
        "\u{202e}MARK\u{2066}",
        "\",\"level\":\"error\",\"node_id\":\"MARK\",\"x\":\"",
        "MARK\\n\\u001b[31m",
        "MARK\u{8}\u{8}\u{8}\u{7f}",
    ]
    .map(|text| text.replace("MARK", MARK))
    .to_vec()
}

/// May stand in a line that a person reads.
fn harmless(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_44_log_forging() {
    for format in ["json", "text"] {
        let glass = Glass::start(format).await;
        let (_, mut sim) = glass.node("sim").await;
        for (n, evil) in corpus().iter().enumerate() {
            as_a_caller(&glass, evil).await;
            as_a_node(&glass, n, evil).await;
            as_an_agent(&sim.dir.path().join("x.sock"), evil);
        }
        on_the_command_line(&glass).await;
        tokio::task::block_in_place(|| sim.stop());
        check(&glass, format);
        glass.end().await;
    }
}

/// Everything that a request can carry besides its meaning.
async fn as_a_caller(glass: &Glass, evil: &str) {
    let address = glass.api.url().strip_prefix("http://").expect("plain").to_owned();
    // Bytes as they are where HTTP allows them, percent-encoded where it does not.
    let plain = |byte: u8| {
        if byte.is_ascii_alphanumeric() {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    let encoded: String = evil.bytes().map(plain).collect();
    let visible: String = evil
        .chars()
        .map(|c| if c.is_ascii_control() { ' ' } else { c })
        .collect();
    let token = glass.api.token();
    for path in [
        format!("/v1/nodes/{encoded}"),
        format!("/v1/{MARK}/{encoded}?q={encoded}"),
    ] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nuser-agent: {visible}\r\n\
             x-correlation-id: {visible}\r\nx-forwarded-for: {visible}\r\nconnection: close\r\n\r\n"
        );
        let mut stream = TcpStream::connect(&address).await.expect("a connection");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("an answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
        assert!(
            !answer.contains(&format!("x-correlation-id: {visible}")),
            "ids are ours: {answer}"
        );
    }
    for body in [
        json!({ evil: 1 }),
        json!({ "name": evil }),
        json!({ "name": "a", "mode": evil }),
    ] {
        let answer = glass
            .api
            .call(Method::POST, "/v1/nodes", Some(&body))
            .await
            .expect("an answer");
        assert_eq!(answer.status, 422, "{answer:?}");
    }
}

/// Everything that a node says of itself and of its work.
async fn as_a_node(glass: &Glass, n: usize, evil: &str) {
    let token = glass.add_node(&format!("liar-{n}")).await.token;
    let bound = |text: &str| text.chars().take(60).collect::<String>();
    let evil = bound(evil);
    let node = Puppet::claiming(&token, |request| {
        request.facts.hostname.clone_from(&evil);
        request.facts.provider = Some(evil.clone());
        request.hardware.board_serial = Some(evil.clone());
        request.versions.agent.clone_from(&evil);
    })
    .await;
    let opened = node
        .opens(|request| {
            request.boot_id.clone_from(&evil);
            request.versions.executor.clone_from(&evil);
        })
        .await;
    if !opened.status.is_success() {
        assert!(node.opens(|_| {}).await.status.is_success(), "the honest one is taken");
    }
    let task = node.claim().await;
    let now = glass.db.clock().now();
    let mut beat = node.heartbeat(&task, Some(now));
    beat.tasks[0].phase.clone_from(&evil);
    node.post("heartbeat", &beat).await;
    let probe = NodeProbe {
        schema: NodeProbeSchema::V1,
        at: now,
        agent_version: evil.clone(),
        process_started_at: now,
        executor_connected: true,
        disk: None,
        api: ProbedHop {
            url: evil.clone(),
            ok: false,
            reason: Some(evil.clone()),
            took_ms: 1,
        },
        held: None,
    };
    node.post("self-probe", &probe).await;
    let mut result = node.result(&task, now);
    (result.outcome, result.code) = (Outcome::Failed, Some(Code::HostCommandFailed));
    result.detail = Some(evil.clone());
    result.undone = vec![evil.clone()];
    result.timings = [(evil.clone(), 1)].into();
    result.output = None;
    let answer = node
        .land(task.task_id, task.fence, result.sign(&node.keys.result))
        .await;
    assert!(answer.status.is_success(), "{answer:?}");
    // Somebody who is nobody: a token, a request and a name that are none.
    let nonsense = json!({ "secret": evil, "device_csr": evil, "working_csr": evil, "result_public": evil });
    let answer = post(&node.outside, "/internal/v1/enroll", &nonsense).await;
    assert!(answer.status.is_client_error(), "{answer:?}");
    let answer = node
        .renew(
            node.id(),
            model::node_api::CertificateKind::Working,
            &evil,
            evil.clone(),
        )
        .await;
    assert!(answer.status.is_client_error(), "{answer:?}");
}

/// What whoever is on the socket can make the executor say.
fn as_an_agent(socket: &std::path::Path, evil: &str) {
    let envelope = Envelope {
        payload_type: evil.to_owned(),
        payload: evil.to_owned(),
        signatures: Vec::new(),
    };
    for message in [
        json!({ "offer": { "task_id": evil, "fence": 1, "envelope": envelope } }),
        json!({ evil: {} }),
        json!({ "hello": { evil: 1 } }),
    ] {
        let body = message.to_string();
        let mut frame = u32::try_from(body.len()).expect("small").to_be_bytes().to_vec();
        frame.extend_from_slice(body.as_bytes());
        // It hangs up on nonsense, so each has a line of its own.
        let mut stream = UnixStream::connect(socket).expect("the executor listens");
        stream.write_all(&frame).expect("it takes a frame");
        assert_eq!(stream.read_to_end(&mut Vec::new()).ok(), Some(0), "and hangs up");
    }
}

/// What an operator sees of all this, on a terminal and in a pipe, and when something is refused.
async fn on_the_command_line(glass: &Glass) {
    let nodes: Value = glass.api.get("/v1/nodes?limit=100").await.expect("nodes");
    let tasks: Value = glass.api.get("/v1/tasks?limit=100").await.expect("tasks");
    let ids = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().expect("items");
        items
            .iter()
            .map(|item| item["id"].as_str().expect("an id").to_owned())
            .collect()
    };
    let mut lines: Vec<Vec<String>> = Vec::new();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    lines.extend(["node list", "task list", "audit list"].map(words));
    lines.extend(ids(&nodes).iter().map(|id| words(&format!("node show {id}"))));
    lines.extend(ids(&tasks).iter().map(|id| words(&format!("task show {id}"))));
    for evil in corpus() {
        lines.push(["node", "show", &evil].map(str::to_owned).to_vec());
        lines.push(["node", "enroll", &evil].map(str::to_owned).to_vec());
    }
    let mut seen = 0;
    for line in &lines {
        for format in ["table", "tsv", "json"] {
            let (out, err) = types(glass, line, format).await;
            for text in [&out, &err] {
                let bad = text.chars().find(|c| !harmless(*c) && *c != '\n' && *c != '\t');
                assert_eq!(bad, None, "{line:?} -o {format}: {text:?}");
                seen += text.matches(MARK).count();
            }
        }
    }
    assert!(seen >= 20, "the forgeries were on the screen: {seen}");
}

async fn types(glass: &Glass, line: &[String], format: &str) -> (String, String) {
    let home = glass.dir.display().to_string();
    let vars = [
        ("GPUAAS_URL", glass.api.url()),
        ("GPUAAS_TOKEN", glass.api.token()),
        ("HOME", &home),
        ("NO_COLOR", "1"),
    ];
    let (env, captured) = Env::captured(vars);
    let terminal = Tty {
        stdin: false,
        stdout: true,
        stderr: true,
    };
    let words = ["gpuaas", "-o", format]
        .map(str::to_owned)
        .into_iter()
        .chain(line.iter().cloned());
    cli::run(words, env.with_tty(terminal)).await;
    (captured.stdout(), captured.stderr())
}

/// Every line is one of ours, from its first character to its last.
fn check(glass: &Glass, format: &str) {
    let logs = glass.logs();
    assert!(
        logs.len() >= 3,
        "api, agent, executor: {:?}",
        logs.iter().map(|(path, _)| path).collect::<Vec<_>>()
    );
    let began = "20";
    for (path, text) in &logs {
        let json = format == "json" || !path.ends_with("gpuaasd.log");
        for line in text.lines() {
            assert!(line.chars().all(harmless), "{}: {line:?}", path.display());
            if json {
                let fields: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
                let at = fields["at"].as_str().unwrap_or_default();
                assert!(
                    at.starts_with(began) && !at.starts_with("2000"),
                    "the time is ours: {line}"
                );
                assert!(
                    !fields["node_id"].as_str().unwrap_or_default().contains(MARK),
                    "so is the node: {line}"
                );
            } else {
                assert!(line.starts_with(began) && !line.starts_with("2000"), "{line}");
                assert!(!line.starts_with("2026-01-01T00:00:00Z ERROR forged"), "{line}");
            }
        }
    }
    let marked = |name: &str| {
        let (_, text) = logs.iter().find(|(path, _)| path.ends_with(name)).expect("a log");
        text.matches(MARK).count()
    };
    assert!(
        marked("gpuaasd.log") >= corpus().len(),
        "the attack got into the api's log: {}",
        marked("gpuaasd.log")
    );
    assert!(
        marked("executor.log") >= corpus().len(),
        "and into the executor's: {}",
        marked("executor.log")
    );
}
