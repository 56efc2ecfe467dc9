//! Guests by way of ssh, run as nobody: with the VM's own key, which ssh reads from an open file and no other process
//! finds by name, and with the one host key that the VM was given. ssh has no network of its own either: somebody else
//! connects, and the connected socket is handed to it.

mod passing;

use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::signal::Code;
use model::task::vm_provision::{Performance, Readiness};
use model::value::Name;
use rustix::fs::{MemfdFlags, Mode, fchmod, memfd_create};

use super::command::{Commands, Ended, Output, Program, With};
use super::slices::{MARKER, Slices};
use crate::error::Doing;
use crate::{Error, Guest, Result};
use passing::Counter;
pub use passing::hand_over;

const ONCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(1);
/// Each device's vendor and class, the disks that came with slots, processors and memory. Nothing in it varies.
const LOOK: &str = "for d in /sys/bus/pci/devices/*; do echo pci $(cat $d/vendor $d/class); done; \
    for d in /sys/block/*; do echo disk $(cat $d/serial); done; echo cpus $(grep -c ^processor /proc/cpuinfo); \
    grep MemTotal /proc/meminfo";

/// Who connects for us.
pub trait Dial: Send + Sync {
    /// A connection to port 22 of this guest.
    fn dial(&self, vm: &Name, address: Ipv4Addr) -> Result<OwnedFd>;
}

/// Nobody does. The half of the node that has a network cannot be asked yet.
pub struct NoDial;

impl Dial for NoDial {
    fn dial(&self, vm: &Name, _: Ipv4Addr) -> Result<OwnedFd> {
        Err(not_ready(vm, "this build's agent does not connect to guests"))
    }
}

pub struct Guests {
    slices: Slices,
    dial: Arc<dyn Dial>,
    /// This program itself, which [`hand_over`]s.
    helper: PathBuf,
    commands: Commands,
}

impl Guests {
    pub fn new(slices: Slices, dial: Arc<dyn Dial>, helper: PathBuf) -> Self {
        let commands = Commands::under("/".into());
        Self {
            slices,
            dial,
            helper,
            commands,
        }
    }

    fn ssh(&self, guest: &Guest, line: &str, limit: Duration) -> Result<Ended> {
        let connection = self.dial.dial(&guest.slice.vm, guest.ip)?;
        let dir = self.slices.dir(&guest.slice);
        let doing = || format!("connect to {}", guest.slice.vm);
        let secret = std::fs::read(dir.join("id_ed25519")).doing(doing)?;
        let known = std::fs::read(dir.join("known_hosts")).doing(doing)?;
        // Left at its end: whoever goes on reading gets nothing, whoever opens it anew gets the key.
        let mut key = File::from(memfd_create("key", MemfdFlags::CLOEXEC).doing(doing)?);
        key.write_all(&secret).doing(doing)?;
        fchmod(&key, Mode::from_raw_mode(0o444)).doing(doing)?;
        let counter = Counter::open(&known, connection)?;
        let options = [
            "BatchMode=yes".to_owned(),
            "StrictHostKeyChecking=yes".to_owned(),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
            format!("UserKnownHostsFile={}", counter.known_hosts().display()),
            format!("HostKeyAlias={}", guest.slice.vm),
            "HostKeyAlgorithms=ssh-ed25519".to_owned(),
            "IdentityFile=/proc/self/fd/0".to_owned(),
            "IdentitiesOnly=yes".to_owned(),
            "IdentityAgent=none".to_owned(),
            "PreferredAuthentications=publickey".to_owned(),
            "ClearAllForwardings=yes".to_owned(),
            "PermitLocalCommand=no".to_owned(),
            "ConnectTimeout=10".to_owned(),
            "LogLevel=ERROR".to_owned(),
            "ProxyUseFdpass=yes".to_owned(),
            format!(
                "ProxyCommand={} hand-over {}",
                self.helper.display(),
                counter.socket().display()
            ),
        ];
        let mut args = vec!["-F", "/dev/null", "-n", "-T"];
        for option in &options {
            args.extend(["-o", option]);
        }
        args.extend(["-l", guest.user.as_str(), "--", guest.slice.vm.as_str(), line]);
        let with = With {
            input: Some(key),
            output: Output::Kept,
            as_nobody: true,
        };
        let ended = self.commands.run_with(Program::Ssh, &args, with, limit);
        counter.close();
        ended
    }
}

impl crate::Guests for Guests {
    fn await_ready(&self, guest: &Guest, wait: Duration) -> Result<Readiness> {
        let began = Instant::now();
        let line = format!("test -f {MARKER}");
        loop {
            let left = wait.saturating_sub(began.elapsed());
            let why = match self.ssh(guest, &line, ONCE.min(left.max(PAUSE))) {
                Ok(ended) if ended.code() == Some(0) => {
                    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                    return Ok(Readiness {
                        host_key_pinned: true,
                        marker_seen: true,
                        took_ms,
                    });
                }
                Ok(ended) if ended.code() == Some(1) => "its first boot has not ended".to_owned(),
                Ok(ended) => ended.stderr().to_owned(),
                Err(error) => error.to_string(),
            };
            if began.elapsed() + PAUSE >= wait {
                return Err(not_ready(&guest.slice.vm, &why));
            }
            // A guest that boots tells nobody.
            std::thread::park_timeout(PAUSE);
        }
    }

    fn look(&self, guest: &Guest) -> Result<Performance> {
        let said = self.ssh(guest, LOOK, ONCE)?.said()?;
        Ok(count(&said))
    }
}

/// What the guest says is only counted; a line that is not known is none.
fn count(said: &str) -> Performance {
    let mut seen = Performance {
        gpus: 0,
        fabric_devices: 0,
        disks: 0,
        memory_mib: 0,
        vcpus: 0,
        warnings: Vec::new(),
    };
    for line in said.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["pci", "0x10de", class] if class.starts_with("0x03") => seen.gpus += 1,
            ["pci", "0x15b3", class] if class.starts_with("0x02") => seen.fabric_devices += 1,
            ["disk", serial] if serial.starts_with("slot-") => seen.disks += 1,
            ["cpus", count] => seen.vcpus = count.parse().unwrap_or(0),
            ["MemTotal:", kib, "kB"] => seen.memory_mib = kib.parse::<u64>().unwrap_or(0) / 1024,
            _ => {}
        }
    }
    seen
}

fn not_ready(vm: &Name, why: &str) -> Error {
    Error::Slice {
        code: Code::GuestNotReady,
        subject: vm.to_string(),
        why: why.to_owned(),
    }
}
