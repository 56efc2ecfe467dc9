//! `gpuaas-dev` as a newcomer meets it: a binary and a directory. One start shows everything, the command line finds
//! it by itself, the state outlives Ctrl-C and kill -9, and nothing is left running.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Child;

use base::testing::eventually;
use cli::Env;
use dev::api::Api;
use dev::children::{Program, spawn};
use http::header::HOST;
use http::{HeaderValue, Method};
use model::api::{NodeView, Page};
use model::signal::Code;
use model::state::NodeState;
use rustix::process::{Pid, Signal, kill_process};
use wire::http::Client;

use crate::EXE;

/// A home for one newcomer; what runs in it ends with it.
struct Home {
    dir: PathBuf,
    running: Vec<Child>,
}

impl Home {
    fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("newcomer-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&dir).expect("a directory");
        Self {
            dir,
            running: Vec::new(),
        }
    }

    fn state(&self) -> PathBuf {
        self.dir.join("gpuaas/dev")
    }

    /// Starts `gpuaas-dev` with these words; what it says goes to a log of its own.
    fn types(&mut self, words: &[&str]) -> Screen {
        let log = self.dir.join(format!("screen-{}", self.running.len()));
        let state = self.state().display().to_string();
        let args = ["--state", &state]
            .iter()
            .chain(words)
            .map(ToString::to_string)
            .collect();
        let program = Program {
            exe: EXE.into(),
            args,
            log: log.clone(),
        };
        self.running.push(spawn(&program).expect("it starts"));
        Screen {
            log,
            index: self.running.len() - 1,
        }
    }

    async fn exit(&mut self, screen: &Screen) -> i32 {
        let child = &mut self.running[screen.index];
        eventually("it ends", || {
            std::future::ready(match child.try_wait() {
                Ok(Some(status)) => Ok(status.code().unwrap_or(-1)),
                other => Err(format!("{other:?}")),
            })
        })
        .await
    }

    /// Runs it to its end, and reads what it said.
    async fn ends(&mut self, words: &[&str]) -> (i32, String) {
        let screen = self.types(words);
        (self.exit(&screen).await, screen.text())
    }

    fn signal(&self, screen: &Screen, signal: Signal) {
        let pid = Pid::from_child(&self.running[screen.index]);
        kill_process(pid, signal).expect("it runs");
    }

    /// `gpuaas` with no settings at all but where state lies.
    async fn gpuaas(&self, words: &[&str]) -> (u8, String, String) {
        let dir = self.dir.display().to_string();
        let (env, captured) = Env::captured([("XDG_STATE_HOME", dir.as_str()), ("HOME", &dir)]);
        let exit = cli::run(["gpuaas"].iter().chain(words), env).await;
        (exit, captured.stdout(), captured.stderr())
    }

    async fn node(&self) -> NodeView {
        let (exit, out, err) = self.gpuaas(&["node", "list", "-o", "json"]).await;
        assert_eq!(exit, 0, "{err}");
        let page: Page<NodeView> = serde_json::from_str(&out).expect("a list");
        page.items.into_iter().next().expect("a node")
    }

    async fn nothing_runs(&self) {
        eventually("no process is left", async || match processes(&self.dir) {
            left if left.is_empty() => Ok(()),
            left => Err(left),
        })
        .await;
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for child in &mut self.running {
            // Most have ended; whoever has not is of a test that failed.
            if matches!(child.try_wait(), Ok(None)) && child.kill().is_ok() {
                child.wait().ok();
            }
        }
        if !std::thread::panicking() {
            std::fs::remove_dir_all(&self.dir).expect("nobody else is in there");
        }
    }
}

/// What a start has said so far.
struct Screen {
    log: PathBuf,
    index: usize,
}

impl Screen {
    fn text(&self) -> String {
        std::fs::read_to_string(&self.log).expect("a log")
    }

    /// Waits for the block to be complete, and returns it.
    async fn ready(&self) -> String {
        eventually("Ready is said", async || {
            let text = self.text();
            if text.contains("Stop  Ctrl-C") {
                Ok(text)
            } else {
                Err(text)
            }
        })
        .await
    }

    async fn url(&self) -> String {
        let text = self.ready().await;
        let after = text.split("API at ").nth(1).expect("the URL is said");
        after.lines().next().unwrap_or_default().trim().to_owned()
    }
}

/// Command lines of whoever was started on this directory.
fn processes(dir: &Path) -> Vec<String> {
    let wanted = dir.display().to_string();
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&wanted))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_starts_it_uses_it_and_finds_everything_again() {
    let mut home = Home::new();
    // Somebody may have the usual port already; then it is as good as ours.
    let taken = TcpListener::bind("127.0.0.1:8080");
    let first = home.types(&[]);
    let block = first.ready().await;
    for wanted in [
        "DEV MODE",
        "✓ database  private PostgreSQL",
        "sim-a SIMULATED",
        "nodes at https://127.0.0.1:",
    ] {
        assert!(block.contains(wanted), "{wanted} in {block}");
    }
    let reset = format!("--state {} reset", home.state().display());
    assert!(block.contains(&reset), "what is pasted forgets this state: {block}");
    let url = first.url().await;
    assert!(!url.ends_with(":8080"), "a taken port is not waited for: {url}");
    drop(taken);

    let (exit, out, err) = home.gpuaas(&["node", "probe", "sim-a"]).await;
    assert!(exit == 0 && out.contains("succeeded"), "{out} {err}");
    assert!(
        err.contains("using the development server at"),
        "it says whom it asks: {err}"
    );
    rents_what_it_says_to_try(&home, &block).await;
    host_is_checked(&url).await;
    let (exit, text) = home.ends(&[]).await;
    assert!(
        exit == 5 && text.contains(&url),
        "a second start says where the first is: {text}"
    );
    let (exit, text) = home.ends(&["status"]).await;
    assert!(exit == 0 && text.contains(&url), "{text}");
    assert_eq!(home.ends(&["reset"]).await.0, 5, "not under a running one");

    let before = home.node().await;
    home.signal(&first, Signal::KILL);
    home.nothing_runs().await;
    assert_ne!(
        home.gpuaas(&["node", "list"]).await.0,
        0,
        "a file of the dead means nothing"
    );
    let second = home.types(&["run"]);
    second.ready().await;
    let after = home.node().await;
    assert_eq!(
        (after.id, after.epoch, after.state),
        (before.id, before.epoch, NodeState::Ready)
    );

    let (_, out, _) = home.gpuaas(&["token", "list", "--columns", "revoked,name"]).await;
    let open: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix('\t')).collect();
    assert_eq!(
        open,
        ["bootstrap"],
        "whoever was waiting when it was killed is still let in: {out}"
    );

    home.signal(&second, Signal::INT);
    assert_eq!(home.exit(&second).await, 0);
    let kept = format!("State is kept in {}", home.state().display());
    let said = second.text();
    assert!(said.contains("Stopping: ") && said.contains(&kept), "{said}");
    assert_eq!(
        processes(&home.dir),
        Vec::<String>::new(),
        "it has taken everybody along"
    );
    assert_eq!(home.ends(&["status"]).await.0, 3);
    let (exit, text) = home.ends(&["reset"]).await;
    assert!(exit == 2 && text.contains("add --yes if you mean it"), "{text}");
    assert!(home.state().exists(), "nobody was there to ask");
    assert_eq!(home.ends(&["reset", "--yes"]).await.0, 0);
    assert!(!home.state().exists());
}

/// The first screen's own line: a slice comes with all its phases, and goes with a proven wipe.
async fn rents_what_it_says_to_try(home: &Home, block: &str) {
    let line = block
        .lines()
        .find(|line| line.starts_with("Try "))
        .expect("something to try");
    let words: Vec<&str> = line
        .split_whitespace()
        .skip_while(|word| *word != "allocation")
        .collect();
    let (exit, out, err) = home.gpuaas(&[words.as_slice(), &["-o", "table"]].concat()).await;
    assert_eq!(exit, 0, "{out} {err}");
    for wanted in [
        "slice.h100.1 on sim-a (SIMULATED)   2.00 USD/h",
        " 1/17 lease_acquire",
        "17/17 performance_probe",
        "active in ",
    ] {
        assert!(out.contains(wanted), "{wanted} in {out}");
    }
    let id = out.split_whitespace().next().expect("an id");
    let (exit, out, err) = home
        .gpuaas(&["alloc", "release", id, "--yes", "--wait", "-o", "table"])
        .await;
    assert_eq!(exit, 0, "{out} {err}");
    assert!(
        out.contains("10/10 lease_release") && out.contains("released in "),
        "{out}"
    );
    let (_, out, _) = home
        .gpuaas(&["slot", "list", "--columns", "state,wiped", "-o", "tsv"])
        .await;
    let states: Vec<&str> = out.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(states, ["free"; 8]);
    assert!(
        out.lines()
            .any(|line| line.split('\t').nth(1).is_some_and(|at| at.starts_with("20"))),
        "{out}"
    );
}

/// A page of another site that found our port cannot speak to us under its own name.
async fn host_is_checked(url: &str) {
    let client = Client::builder(url).expect("a URL").build();
    let ask = |host: &'static str| {
        let request = client.get("/v1/version").header(HOST, HeaderValue::from_static(host));
        async move { request.send().await.expect("an answer") }
    };
    let refused = ask("evil.example").await;
    assert_eq!(
        (refused.status.as_u16(), refused.error().map(|e| e.code)),
        (421, Some(Code::HostRefused))
    );
    assert!(ask("localhost").await.status.is_success());
    let api = Api::new(url, "gpt_nobody").expect("a URL");
    let stranger = api
        .call(Method::GET, "/v1/nodes", None::<&()>)
        .await
        .expect("an answer");
    assert_eq!(stranger.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_postgresql_it_names_the_package_in_one_line() {
    let mut home = Home::new();
    let empty = home.dir.join("empty");
    std::fs::create_dir(&empty).expect("a directory");
    let (exit, text) = home
        .ends(&["run", "--postgres-bin-dir", &empty.display().to_string()])
        .await;
    assert_eq!(exit, 1, "{text}");
    let complaint: Vec<&str> = text.lines().filter(|line| line.starts_with("gpuaas-dev:")).collect();
    assert!(
        complaint.len() == 1 && complaint[0].contains("apt install postgresql"),
        "{text}"
    );
    home.nothing_runs().await;
}
