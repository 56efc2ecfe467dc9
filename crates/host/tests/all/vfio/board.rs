//! The board: one root port for a GPU with an audio function, one for a GPU alone, one for a GPU that shares a bridge
//! with a network card, one for a network card alone. It ends with its program, or when its time is up.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{MARK, ids};
use crate::facts::Scratch;
use crate::tree::program;

/// Ten times what it takes on two slow cores.
const PATIENCE: Duration = Duration::from_secs(180);
/// An emulated machine now and then hangs before its kernel says a word.
const BOOTS: usize = 2;

#[rustfmt::skip]
const DEVICES: [&str; 12] = [
    "intel-iommu,intremap=off",
    "virtio-blk-pci,drive=program,bus=pcie.0,addr=1",
    "pcie-root-port,id=port1,bus=pcie.0,chassis=1,slot=1,addr=2.0",
    "pcie-root-port,id=port2,bus=pcie.0,chassis=2,slot=2,addr=3.0",
    "pcie-root-port,id=port3,bus=pcie.0,chassis=3,slot=3,addr=4.0",
    "pcie-root-port,id=port4,bus=pcie.0,chassis=4,slot=4,addr=5.0",
    "pci-testdev,bus=port1,addr=0.0,multifunction=on",
    "intel-hda,bus=port1,addr=0.1",
    "pci-testdev,bus=port2",
    "pcie-pci-bridge,id=bridge,bus=port3",
    "pci-testdev,bus=bridge,addr=1",
    "e1000,bus=bridge,addr=2,romfile=",
];
const LONE_CARD: &str = "e1000,bus=port4,romfile=";

struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().ok();
        self.0.wait().expect("a child of ours");
    }
}

/// All that its console said.
pub(super) fn run(files: &Path) -> String {
    let mut said = String::new();
    for _ in 0..BOOTS {
        said = boot(files);
        if said.contains("lab host:") {
            break;
        }
        println!("lab: the machine said nothing in time");
    }
    said
}

fn boot(files: &Path) -> String {
    let dir = Scratch::new("vfio");
    let monitor = dir.0.join("monitor");
    let mut command = program("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "qemu-system-x86_64"]);
    command.args(["-accel", "tcg", "-machine", "q35", "-cpu", "max,la57=off", "-m", "768"]);
    command.args([
        "-nodefaults",
        "-no-reboot",
        "-display",
        "none",
        "-S",
        "-serial",
        "stdio",
    ]);
    command.args(["-monitor", &format!("unix:{},server,nowait", monitor.display())]);
    command.arg("-kernel").arg(files.join("vmlinuz"));
    command.arg("-initrd").arg(files.join("initrd"));
    let words = format!(
        "console=ttyS0 intel_iommu=on iommu=pt mitigations=off quiet panic=-1 {MARK} -- \
         --exact {} --ignored --nocapture --test-threads 1",
        super::inside::NAME
    );
    command.args(["-append", &words]);
    let exe = std::env::current_exe().expect("this binary");
    command.args([
        "-drive",
        &format!("file={},if=none,id=program,format=raw,readonly=on", exe.display()),
    ]);
    for device in DEVICES.iter().chain([&LONE_CARD]) {
        command.args(["-device", device]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut machine = Machine(command.spawn().expect("QEMU starts"));
    let mut console = machine.0.stdout.take().expect("piped");
    let listener = std::thread::spawn(move || {
        let mut said = Vec::new();
        console.read_to_end(&mut said).expect("readable");
        String::from_utf8_lossy(&said).replace('\r', "")
    });
    let until = Instant::now() + PATIENCE;
    let mut monitor = Monitor::connect(&monitor, until);
    monitor.stands_still();
    assert_eq!(
        ids::become_gpus(machine.0.id()),
        3,
        "every stand-in has the numbers of a GPU"
    );
    monitor.goes_on();
    while !listener.is_finished() && Instant::now() < until {
        std::thread::park_timeout(Duration::from_millis(50));
    }
    drop(machine);
    listener.join().expect("no panic")
}

struct Monitor(BufReader<UnixStream>);

impl Monitor {
    fn connect(path: &Path, until: Instant) -> Self {
        loop {
            match UnixStream::connect(path) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                    return Self(BufReader::new(stream));
                }
                Err(error) => assert!(Instant::now() < until, "no monitor: {error}"),
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Answered once the board is complete.
    fn stands_still(&mut self) {
        self.ask("info status", "VM status: paused");
    }

    fn goes_on(&mut self) {
        self.ask("cont\ninfo status", "VM status: running");
    }

    fn ask(&mut self, words: &str, answer: &str) {
        let sent = self.0.get_mut().write_all(format!("{words}\n").as_bytes());
        sent.expect("it listens");
        let mut line = String::new();
        while !line.contains(answer) {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).expect("it answers"), 0, "it hung up");
        }
    }
}
