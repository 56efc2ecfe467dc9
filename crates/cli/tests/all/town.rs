//! Where a test's command lines run: an empty home of their own, and nothing of the developer's.

use std::path::{Path, PathBuf};

use cli::{Captured, Env, Tty};
use model::id::{NodeId, TaskId};
use serde_json::{Value, json};

pub(crate) struct Home(PathBuf);

impl Home {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("gpuaas-cli-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(path.join("gpuaas/dev")).expect("a fresh directory");
        let home = Self(path);
        // A development server that is gone, in the first place looked at: the developer's own is never found.
        home.write(
            "gpuaas/dev/dev.json",
            r#"{"url":"http://127.0.0.1:1","token":"gone","pid":2147483647}"#,
        );
        home
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("writable");
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("nobody else is in there");
    }
}

#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) exit: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A command line in the making.
pub(crate) struct Line<'a> {
    words: Vec<&'a str>,
    vars: Vec<(&'a str, &'a str)>,
    tty: bool,
    stdin: &'a str,
}

pub(crate) const TERMINAL: Tty = Tty {
    stdin: true,
    stdout: true,
    stderr: true,
};

/// `gpuaas` and these words, off a terminal.
pub(crate) fn gpuaas<'a>(words: &[&'a str]) -> Line<'a> {
    Line {
        words: words.to_vec(),
        vars: Vec::new(),
        tty: false,
        stdin: "",
    }
}

impl<'a> Line<'a> {
    pub(crate) fn at(mut self, url: &'a str) -> Self {
        self.vars.extend([("GPUAAS_URL", url), ("GPUAAS_TOKEN", "gpt_test")]);
        self
    }

    pub(crate) fn var(mut self, name: &'a str, value: &'a str) -> Self {
        self.vars.push((name, value));
        self
    }

    /// At a terminal without colours, so that lines can be compared.
    pub(crate) fn on_a_terminal(mut self) -> Self {
        self.tty = true;
        self.vars.push(("NO_COLOR", "1"));
        self
    }

    pub(crate) fn stdin(mut self, text: &'a str) -> Self {
        self.stdin = text;
        self
    }

    pub(crate) async fn run(self, home: &Home) -> Said {
        self.run_with(home, |_| {}).await
    }

    /// `meanwhile` gets hold of the streams and of Ctrl-C before the run begins.
    pub(crate) async fn run_with(self, home: &Home, meanwhile: impl FnOnce(Captured)) -> Said {
        let dir = home.path().to_str().expect("a plain path");
        let vars = [("GPUAAS_CONFIG_DIR", dir), ("XDG_STATE_HOME", dir), ("HOME", dir)];
        let (env, captured) = Env::captured(vars.into_iter().chain(self.vars));
        let mut env = env.with_stdin(self.stdin);
        if self.tty {
            env = env.with_tty(TERMINAL);
        }
        meanwhile(captured.clone());
        let words = ["gpuaas"].into_iter().chain(self.words);
        let exit = cli::run(words, env).await;
        Said {
            exit,
            out: captured.stdout(),
            err: captured.stderr(),
        }
    }
}

pub(crate) fn node(name: &str) -> Value {
    json!({
        "id": NodeId::new().to_string(), "name": name, "state": "ready", "state_since": "2026-01-01T00:00:00.000Z",
        "state_reason": null, "waiting": null, "mode": "slice", "simulated": name.starts_with("sim"), "epoch": 1,
        "facts": {"hostname": name}, "hardware": {}, "versions": {"agent": "0.1.0", "executor": "0.1.0", "protocol": 1},
        "task_types": [], "last_seen_at": null, "certificate": null, "created_at": "2026-01-01T00:00:00.000Z", "version": 1,
        "from_the_next_release": true,
    })
}

pub(crate) fn task(state: &str, version: i64) -> Value {
    let reached = |at: &str, names: &[&str]| if names.contains(&state) { json!(at) } else { Value::Null };
    json!({
        "id": model::id::derive_task(uuid::Uuid::nil().into(), 0).to_string(), "task_type": "diag.health_probe",
        "node_name": "sim-a", "simulated": true, "state": state, "version": version, "correlation_id": "c-1",
        "created_at": "2026-01-01T00:00:00.000Z",
        "dispatched_at": reached("2026-01-01T00:00:00.012Z", &["dispatched", "started", "succeeded", "failed"]),
        "started_at": reached("2026-01-01T00:00:00.020Z", &["started", "succeeded", "failed"]),
        "ended_at": reached("2026-01-01T00:00:01.293Z", &["succeeded", "failed"]),
        "output": if state == "succeeded" {
            json!({"kernel_version": "6.1.0", "free_memory_mib": 20480, "kvm_present": true, "gpus": [{"model": "H100"}, {"model": "H100"}]})
        } else { Value::Null },
    })
}

pub(crate) fn task_id() -> String {
    let id: TaskId = model::id::derive_task(uuid::Uuid::nil().into(), 0);
    id.to_string()
}

pub(crate) fn id_of(row: &Value) -> String {
    row["id"].as_str().expect("an id").to_owned()
}

pub(crate) fn page(items: &[Value], next: Option<&str>) -> Value {
    json!({"items": items, "next": next})
}
