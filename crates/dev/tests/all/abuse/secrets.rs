//! Secrets where they do not belong. Everything that is secret is known to this test; the platform is driven through
//! enrolment, probes, renewal and a tenant's account with every log at full voice while `/proc` is watched; afterwards
//! logs, arguments, environments, database and answers are searched for each of them, in every spelling.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use base::testing::eventually;
use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use http::Method;
use model::api::{TokenCreate, TokenCreated};
use model::enrol::EnrolmentToken;
use model::id::NodeId;
use model::state::TaskState;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::glass::{Glass, PASSWORD};
use dev::tenant::Tenant;

/// What to search for, and what it is.
#[derive(Default)]
struct Secrets(Vec<(String, String)>);

impl Secrets {
    fn text(&mut self, what: &str, secret: &str) {
        self.0.push((what.to_owned(), secret.to_owned()));
        self.0
            .push((format!("{what} in hex"), HEXLOWER.encode(secret.as_bytes())));
    }

    fn bytes(&mut self, what: &str, secret: &[u8]) {
        self.0.push((format!("{what} in hex"), HEXLOWER.encode(secret)));
        self.0.push((format!("{what} in base64"), BASE64.encode(secret)));
        self.0
            .push((format!("{what} in base64url"), BASE64URL_NOPAD.encode(secret)));
    }

    /// Every private key in a directory: PEM bodies and our own form, line by line.
    fn keys(&mut self, dir: &Path) -> usize {
        let mut found = 0;
        for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                found += self.keys(&path);
                continue;
            }
            let text = String::from_utf8_lossy(&std::fs::read(&path).expect("a file")).into_owned();
            let name = path.display().to_string();
            if let Some(body) = text.trim().strip_prefix("gpuaas-ed25519-v1:") {
                self.bytes(&name, &BASE64.decode(body.as_bytes()).expect("base64"));
                found += 1;
            }
            for block in text.split("-----BEGIN PRIVATE KEY-----").skip(1) {
                let body = block.split("-----END").next().unwrap_or_default().replace("\\n", "\n");
                for line in body.lines().map(str::trim).filter(|line| line.len() >= 32) {
                    self.text(&name, line);
                }
                found += 1;
            }
        }
        found
    }

    #[track_caller]
    fn absent(&self, place: &str, text: &str) {
        for (what, secret) in &self.0 {
            if let Some(at) = text.find(secret.as_str()) {
                let near: String = text[..at]
                    .chars()
                    .rev()
                    .take(300)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .rev()
                    .collect();
                panic!("{what} is in {place}, after …{near}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_45_secrets() {
    let watcher = Watcher::start();
    let glass = Glass::start("json").await;
    let mut secrets = Secrets::default();
    secrets.text("the database's password", PASSWORD);
    secrets.text("the administrator's token", glass.api.token());

    let (enrolment, mut node) = glass.node("sim").await;
    let id = enrolment.node.id;
    let token: EnrolmentToken = enrolment.token.parse().expect("a token");
    secrets.text("the enrolment token", &enrolment.token);
    secrets.text("the enrolment secret", &token.secret);
    // One that is never used, and one that is used up by a fool.
    let unused = glass.add_node("unused").await.token;
    secrets.text("an unused enrolment token", &unused);
    secrets.text(
        "an unused secret",
        &unused.parse::<EnrolmentToken>().expect("a token").secret,
    );
    let body = TokenCreate {
        name: "reader".to_owned(),
        scopes: vec![model::api::Scope::Support],
        days: 1,
    };
    let made: TokenCreated = glass.api.post("/v1/tokens", &body).await.expect("a token");
    secrets.text("an API token", &made.secret);

    renewed(&glass, id).await;
    probed_and_provisioned(&glass, id).await;
    for process in [&glass.replica.process, &node.executor, &node.agent] {
        no_core(process.pid().expect("it runs").as_raw_nonzero().get());
    }
    // Refusals talk more than successes.
    glass
        .api
        .call(Method::POST, "/v1/nodes", Some(&json!({ "name": made.secret })))
        .await
        .expect("an answer");
    let answers = answers(&glass, id).await;

    assert!(secrets.keys(&glass.dir.join("keys")) >= 5, "signing keys and CA keys");
    assert!(secrets.keys(&node.dir.executor()) >= 2, "device and result key");
    assert!(secrets.keys(&node.dir.agent()) >= 1, "the working key");
    tokio::task::block_in_place(|| node.stop());
    let seen = watcher.end();
    assert!(
        seen.iter().any(|text| text.contains("replica")),
        "it watched us: {}",
        seen.len()
    );
    for text in &seen {
        secrets.absent("an argument or environment", text);
    }
    for (path, text) in glass.logs() {
        assert!(text.lines().count() > 5, "{} says something", path.display());
        secrets.absent(&path.display().to_string(), &text);
        for word in ["PRIVATE KEY", "gpuaas-ed25519-v1:", "Bearer gp"] {
            assert!(!text.contains(word), "{word} in {}", path.display());
        }
        assert_eq!(signed_token(&text), None, "a renewal token in {}", path.display());
    }
    let rows = database(&glass).await;
    assert!(rows.len() > 50, "{}", rows.len());
    rows.iter().for_each(|row| secrets.absent("the database", row));
    answers.iter().for_each(|answer| secrets.absent("an answer", answer));
    glass.end().await;
}

/// A node whose certificate is taken away gets a new one by itself.
async fn renewed(glass: &Glass, id: NodeId) {
    let path = format!("/v1/nodes/{id}/certificates");
    let serials = async || -> Vec<String> {
        let page: Value = glass.api.get(&path).await.expect("certificates");
        let working = page["items"]
            .as_array()
            .expect("items")
            .iter()
            .filter(|c| c["kind"] == "working");
        working
            .map(|c| c["serial"].as_str().expect("a serial").to_owned())
            .collect()
    };
    let before = serials().await;
    for serial in &before {
        let revoke = format!("{path}/{serial}/revoke");
        let body = json!({ "reason": "a test" });
        glass
            .api
            .call(Method::POST, &revoke, Some(&body))
            .await
            .expect("an answer");
    }
    eventually("it has renewed", async || {
        let now = serials().await;
        if now.len() > before.len() {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await;
}

async fn probed_and_provisioned(glass: &Glass, id: NodeId) {
    let probe: Value = glass
        .api
        .post(&format!("/v1/nodes/{id}/probe"), &json!({}))
        .await
        .expect("asked");
    dev::slots::discover(&glass.api, id)
        .await
        .expect("its devices are looked at");
    let task = Tenant::new("tenant", 20_001).moves_in_by(&glass.fleet, id).await;
    for id in [probe["id"].as_str().expect("an id").to_owned(), task.to_string()] {
        eventually("the task ends well", async || {
            let view: model::api::TaskView = glass
                .api
                .get(&format!("/v1/tasks/{id}"))
                .await
                .map_err(|e| e.to_string())?;
            match view.state {
                TaskState::Succeeded => Ok(()),
                state => Err(format!("{state} {:?} {:?}", view.code, view.detail)),
            }
        })
        .await;
    }
}

fn no_core(pid: i32) {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .expect("a limit");
    let numbers: Vec<&str> = core.split_whitespace().skip(4).take(2).collect();
    assert_eq!(numbers, ["0", "0"], "{core}");
}

/// Everything that can be read with every right.
async fn answers(glass: &Glass, id: NodeId) -> Vec<String> {
    let mut answers = Vec::new();
    for route in control::routes::public_infos() {
        // Signing in reads nothing.
        let elsewhere = route.path.contains("{id}") && !route.path.starts_with("/v1/nodes");
        if route.method != Method::GET || elsewhere || route.path.starts_with("/auth/") {
            continue;
        }
        let path = route.path.replace("{id}", &id.to_string());
        let answer = glass
            .api
            .call(Method::GET, &path, None::<&()>)
            .await
            .expect("an answer");
        assert!(answer.status.is_success(), "{path}: {answer:?}");
        answers.push(String::from_utf8_lossy(&answer.body).into_owned());
    }
    assert!(answers.len() >= 7, "{}", answers.len());
    answers
}

/// Every row of every table, bytes as hex.
async fn database(glass: &Glass) -> Vec<String> {
    let mut conn = PgConnection::connect_with(&glass.db.superuser())
        .await
        .expect("the cluster's own account");
    let tables: Vec<String> = sqlx::query_scalar("select tablename::text from pg_tables where schemaname = 'public'")
        .fetch_all(&mut conn)
        .await
        .expect("tables");
    assert!(tables.len() >= 8, "{tables:?}");
    let mut rows = Vec::new();
    for table in tables {
        let query = AssertSqlSafe(format!("select t::text from {table} t"));
        let found: Vec<String> = sqlx::query_scalar(query).fetch_all(&mut conn).await.expect("rows");
        rows.extend(found);
    }
    conn.close().await.expect("closes");
    rows
}

/// Three long parts in base64url, the first of which opens a JSON object.
fn signed_token(text: &str) -> Option<&str> {
    text.match_indices("eyJ")
        .map(|(at, _)| &text[at..])
        .find(|rest| {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)))
                .unwrap_or(rest.len());
            let parts: Vec<&str> = rest[..end].split('.').collect();
            parts.len() == 3 && parts.iter().all(|part| part.len() >= 20)
        })
        .map(|rest| &rest[..60.min(rest.len())])
}

/// Looks at the arguments and environments of all processes, about a thousand times a second.
struct Watcher {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<HashSet<String>>,
}

impl Watcher {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = thread::spawn(move || {
            let (mut seen, mut known) = (HashSet::new(), BTreeSet::new());
            while !told.load(Ordering::SeqCst) {
                look(&mut seen, &mut known);
                thread::park_timeout(Duration::from_millis(1));
            }
            seen
        });
        Self { stop, thread }
    }

    fn end(self) -> HashSet<String> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("no panic")
    }
}

/// A process is looked at again only if its arguments changed, as they do in exec.
fn look(seen: &mut HashSet<String>, known: &mut BTreeSet<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        if !known.insert((name, line.clone())) {
            continue;
        }
        seen.insert(String::from_utf8_lossy(&line).into_owned());
        if let Ok(environment) = std::fs::read(entry.path().join("environ")) {
            seen.insert(String::from_utf8_lossy(&environment).into_owned());
        }
    }
}
