//! The real program, trying what it forbids itself.

use std::os::unix::fs::PermissionsExt;

use host::pretend::Profile;

use crate::lab::program;
use crate::place::Place;

const EAFNOSUPPORT: &str = "97";

/// The program as a careful root starts it.
fn under_umask_077() -> std::process::Command {
    let mut shell = program("sh");
    let start = "umask 077 && exec \"$0\" \"$@\"";
    shell.args(["-c", start, env!("CARGO_BIN_EXE_gpuaas-node-executor")]);
    shell
}

/// The agent reads the same node.toml, and nobody reads anything else.
#[test]
fn enroll_leaves_the_right_modes_whatever_the_umask() {
    let place = Place::empty(Profile::Cpu);
    let path = |name: &str| place.dir.join(name);
    let output = under_umask_077()
        .arg("enroll")
        .arg(place.house.token(false).to_text())
        .args(["--config".as_ref(), path("etc/node.toml").as_os_str()])
        .args(["--state-dir".as_ref(), path("lib/state").as_os_str()])
        .args(["--agent-state-dir".as_ref(), path("agent").as_os_str()])
        .output()
        .expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (name, mode) in [
        ("etc", 0o755),
        ("etc/node.toml", 0o644),
        // The hypervisor and the DHCP server go through it.
        ("lib", 0o755),
        ("lib/state", 0o700),
        ("lib/state/keys", 0o700),
        ("lib/state/keys/device.pem", 0o600),
        ("lib/state/trust", 0o700),
        ("agent/enrolment", 0o600),
    ] {
        let found = std::fs::metadata(path(name)).expect(name).permissions().mode() & 0o777;
        assert_eq!(found, mode, "{name}: {found:o}");
    }
}

#[test]
fn neither_it_nor_its_children_can_open_an_ip_socket() {
    let output = under_umask_077().arg("sandbox-check").output().expect("started");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for who in ["self", "child"] {
        for family in ["inet", "inet6", "packet", "vsock"] {
            assert!(said.contains(&format!("{who} {family} {EAFNOSUPPORT}\n")), "{said}");
        }
        for family in ["unix", "netlink"] {
            assert!(said.contains(&format!("{who} {family} open\n")), "{said}");
        }
    }
}

#[test]
fn it_says_what_it_can_do() {
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_gpuaas-node-executor"));
    let output = program.arg("types").output().expect("started");
    let said = String::from_utf8(output.stdout).expect("text");
    let names: Vec<&str> = said.lines().filter_map(|line| line.split(' ').next()).collect();
    let compiled: Vec<&str> = model::task::TaskType::ALL
        .iter()
        .map(|task_type| task_type.as_str())
        .collect();
    assert_eq!(names, compiled);
}
