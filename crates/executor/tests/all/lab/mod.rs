//! Real slices on the machine that runs the tests: Open vSwitch, dnsmasq and libvirt of its own, in namespaces that
//! vanish with the test, an emulated guest, and a loop device for its disk. Only the GPU is pretended.

mod flows;
mod ground;
mod kills;
mod network;
mod parts;
mod slice;
mod unit;
mod upkeep;

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

const RAN: &str = "this ran in a lab";

const NEEDED: [&str; 10] = [
    "/usr/bin/virsh",
    "/usr/sbin/libvirtd",
    "/usr/sbin/virtlogd",
    "/usr/bin/qemu-system-x86_64",
    "/usr/bin/qemu-img",
    "/usr/bin/ovs-vsctl",
    "/usr/sbin/ovs-vswitchd",
    "/usr/sbin/dnsmasq",
    "/usr/bin/ssh",
    "/dev/net/tun",
];

#[expect(
    clippy::disallowed_methods,
    reason = "tests start the program under test, daemons and namespaces of their own"
)]
pub(crate) fn program(name: &str) -> Command {
    Command::new(name)
}

/// Runs a program to its end, which must be a good one; gives what it said.
fn run(name: &str, args: &[&str]) -> String {
    let output = program(name).args(args).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{name}: {error}"));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {args:?}: {err}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn inside() -> bool {
    let first = std::fs::read("/proc/1/cmdline").unwrap_or_default();
    first.windows(RAN.len()).any(|window| window == RAN.as_bytes())
}

/// Runs `body` in a process and namespaces of its own, with an empty network.
fn in_a_lab<F: FnOnce(&ground::Ground)>(body: F) {
    if !rustix::process::geteuid().is_root() {
        println!("not run: needs root");
        return;
    }
    if let Some(missing) = NEEDED.iter().find(|path| !std::path::Path::new(path).exists()) {
        println!("not run: {missing} is not installed");
        return;
    }
    if inside() {
        println!(); // the test's own name has no line of its own
        body(&ground::Ground::prepare());
        println!("{RAN}");
        return;
    }
    let name = std::any::type_name::<F>();
    let name = name.trim_start_matches("all::").trim_end_matches("::{{closure}}");
    let exe = std::env::current_exe().expect("this test's own binary");
    let mut command = program("unshare");
    command.args(["--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child"]);
    command.args(["--propagation", "private", "--mount-proc"]);
    // A shell is the first process: it takes care of what daemons leave, which libvirt would wait for.
    command.args(["sh", "-c", "\"$@\" & wait $!", RAN]).arg(exe);
    command.args([
        "--exact",
        name,
        "--include-ignored",
        "--nocapture",
        "--test-threads",
        "1",
    ]);
    // Hidden there too, and gone with it.
    command
        .env("TMPDIR", "/mnt")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("unshare starts");
    let mut errors = child.stderr.take().expect("piped");
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        errors.read_to_end(&mut text).expect("readable");
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut out = String::new();
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        let line = line.expect("text");
        // What it says of itself, as it goes, and what could not run.
        if line.starts_with("lab: ") || line.starts_with("not run: ") {
            println!("{line}");
        }
        out += &line;
        out.push('\n');
    }
    let (ended, err) = (child.wait().expect("waited for"), errors.join().expect("no panic"));
    let done = out.contains(RAN) || out.contains("not run: ");
    assert!(ended.success() && done, "{name} in a lab:\n{out}\n{err}");
}
