//! The real program: what the kernel knows of it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::place::Place;

/// Its keys are in its memory, and a core is a file that anybody may pick up.
#[test]
fn abuse_45_agent_leaves_no_core() {
    let place = Place::new();
    let path = |name: &str| place.path().join(name);
    #[expect(clippy::disallowed_methods, reason = "the test runs the binary it is about")]
    let mut program = Command::new(env!("CARGO_BIN_EXE_gpuaas-node-agent"));
    program.arg("run");
    program.arg("--config").arg(path("node.toml"));
    program.arg("--state-dir").arg(place.path());
    program.arg("--executor-socket").arg(path("sock"));
    let spawned = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = spawned.spawn().expect("the binary runs");
    let limits = format!("/proc/{}/limits", running.id());
    let deadline = Instant::now() + Duration::from_secs(30);
    let core = || {
        let text = std::fs::read_to_string(&limits).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("Max core file size"));
        line.map(|line| line.split_whitespace().skip(4).take(2).collect::<Vec<_>>().join(" "))
    };
    while core().as_deref() != Some("0 0") && Instant::now() < deadline {
        std::thread::park_timeout(Duration::from_millis(5));
    }
    let seen = core();
    running.kill().expect("it waits to be enrolled");
    running.wait().expect("it ends");
    assert_eq!(seen.as_deref(), Some("0 0"));
}
