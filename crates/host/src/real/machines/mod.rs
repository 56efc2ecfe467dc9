//! VMs by way of libvirt: a definition that we wrote, handed over as a file, and the few verbs of `virsh`. Whether one is
//! ours stands in its metadata; another's is refused or left alone. No name or number reaches a shell or an option.

mod definition;
mod domain;
mod layout;
mod scan;
mod state;
mod xml;

use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::id::AllocationId;
use model::signal::Code;
use model::task::vm_power::Power;
use model::value::{DiskId, Name, Pci};
use rustix::fs::{MemfdFlags, memfd_create};

use super::command::{Commands, Output, Program, With};
use crate::error::Doing;
use crate::{Error, Machine, Result, Seen};
use definition::{Defined, read};
pub use domain::{Cell, Layout, domain};
use state::{State, await_start, begin};

const LIMIT: Duration = Duration::from_secs(120);
/// Besides, to start or end a guest with devices: all of its memory is zeroed and pinned at once, and let go at once.
const LIMIT_PER_GIB: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Clone, Debug)]
pub struct Settings {
    /// `qemu:///system`, or by its socket.
    pub uri: String,
    /// Where the disks' names are.
    pub disks_dir: PathBuf,
    /// Guests without KVM, pinning and limits, behind a switch outside the kernel. Only code can ask for it.
    pub emulated: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            uri: "qemu:///system".to_owned(),
            disks_dir: "/dev/disk/by-id".into(),
            emulated: false,
        }
    }
}

pub struct Machines {
    settings: Settings,
    commands: Commands,
}

impl Machines {
    pub fn new(settings: Settings) -> Self {
        let commands = Commands::under("/".into());
        Self { settings, commands }
    }

    fn virsh(&self, args: &[&str]) -> Result<String> {
        self.virsh_within(args, LIMIT)
    }

    fn virsh_within(&self, args: &[&str], limit: Duration) -> Result<String> {
        let all = [&["--quiet", "--connect", &self.settings.uri], args].concat();
        self.commands.ask(Program::Virsh, &all, limit)
    }

    fn names(&self) -> Result<Vec<String>> {
        let said = self.virsh(&["list", "--all", "--name"])?;
        let names = said.lines().map(str::trim).filter(|name| !name.is_empty());
        Ok(names.map(str::to_owned).collect())
    }

    fn defined(&self, name: &str) -> Result<Option<Defined>> {
        if !self.names()?.iter().any(|there| there == name) {
            return Ok(None);
        }
        match self.virsh(&["dumpxml", "--domain", name]) {
            Ok(xml) => read(&xml).map(Some).ok_or_else(|| unreadable(name)),
            // It may have gone in between; if it has not, this is an error.
            Err(error) if self.names()?.iter().any(|there| there == name) => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn state(&self, name: &Name) -> Result<State> {
        let said = self.virsh(&["domstate", "--reason", "--domain", name.as_str()])?;
        Ok(state::state(&said))
    }

    fn power(&self, name: &Name) -> Result<Power> {
        self.state(name).map(State::power)
    }

    /// The definition if it is this allocation's; None if there is none.
    fn own(&self, name: &Name, allocation: AllocationId) -> Result<Option<Power>> {
        let own = self.own_and_limit(name, allocation)?;
        Ok(own.map(|(state, _)| state.power()))
    }

    /// And how long a guest of its size may take to start or end.
    fn own_and_limit(&self, name: &Name, allocation: AllocationId) -> Result<Option<(State, Duration)>> {
        match self.defined(name.as_str())? {
            None => Ok(None),
            Some(defined) if defined.allocation == Some(allocation) => {
                let limit = LIMIT + LIMIT_PER_GIB * defined.memory_gib;
                Ok(Some((self.state(name)?, limit)))
            }
            Some(defined) => {
                let holder = defined
                    .allocation
                    .map_or("somebody else".to_owned(), |other| other.to_string());
                Err(refused(name, &holder))
            }
        }
    }

    fn define(&self, machine: &Machine) -> Result<()> {
        let xml = domain(machine, &layout::look(machine, &self.settings)?);
        let doing = || "hand a definition to libvirt".to_owned();
        let mut file = File::from(memfd_create("domain", MemfdFlags::CLOEXEC).doing(doing)?);
        file.write_all(xml.as_bytes()).doing(doing)?;
        file.rewind().doing(doing)?;
        let with = With {
            input: Some(file),
            output: Output::Dropped,
            ..With::default()
        };
        let args = [
            "--quiet",
            "--connect",
            &self.settings.uri,
            "define",
            "--validate",
            "/proc/self/fd/0",
        ];
        self.commands.run_with(Program::Virsh, &args, with, LIMIT)?.ok()
    }

    fn start(&self, name: &Name, limit: Duration) -> Result<()> {
        let started = self.virsh_within(&["start", "--domain", name.as_str()], limit);
        match started {
            // Whoever asked is gone; libvirt goes on with it.
            Err(error @ Error::ProgramTimeout { .. }) => await_start(|| self.state(name), error, LIMIT, PAUSE),
            started => started.map(drop),
        }
    }

    fn wait_off(&self, name: &Name, until: Instant) -> Result<bool> {
        loop {
            let off = self.defined(name.as_str())?.is_none() || self.power(name)? == Power::Off;
            if off || Instant::now() >= until {
                return Ok(off);
            }
            // libvirt says nothing of its own accord to a program that asks once.
            std::thread::park_timeout(PAUSE);
        }
    }

    fn holder(&self, has: impl Fn(&Defined) -> bool) -> Result<Option<String>> {
        for name in self.names()? {
            if self.defined(&name)?.is_some_and(|defined| has(&defined)) {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}

impl crate::Machines for Machines {
    fn check_tools(&self) -> Result<()> {
        for program in [
            Program::Virsh,
            Program::QemuImg,
            Program::OvsVsctl,
            Program::OvsOfctl,
            Program::Ip,
            Program::Ssh,
        ] {
            if !program.is_installed() {
                let why = "it is not installed".to_owned();
                return Err(slice_error(Code::CommandMissing, program.name(), why));
            }
        }
        self.names().map(drop)
    }

    fn observe(&self, name: &Name) -> Result<Option<Seen>> {
        let Some(defined) = self.defined(name.as_str())? else {
            return Ok(None);
        };
        let (allocation, power) = (defined.allocation, self.power(name)?);
        Ok(Some(Seen { allocation, power }))
    }

    fn ours(&self) -> Result<Vec<(Name, Seen)>> {
        let mut ours = Vec::new();
        for name in self.names()? {
            // A name that we could not have given is none of ours.
            let Ok(name) = name.parse::<Name>() else { continue };
            ours.extend(self.observe(&name)?.map(|seen| (name, seen)));
        }
        ours.retain(|(_, seen)| seen.allocation.is_some());
        Ok(ours)
    }

    fn ensure_running(&self, machine: &Machine) -> Result<()> {
        match self.own(&machine.name, machine.allocation)? {
            // Running, or not yet: one that is still on its way is waited for.
            Some(Power::Running) => {}
            Some(Power::Off) | None => self.define(machine)?,
        }
        self.ensure_started(&machine.name, machine.allocation)
    }

    fn ensure_started(&self, name: &Name, allocation: AllocationId) -> Result<()> {
        match self.own_and_limit(name, allocation)? {
            Some((seen, limit)) => begin(seen, || self.state(name), || self.start(name, limit), limit, PAUSE),
            None => Err(absent(name)),
        }
    }

    fn ask_to_stop(&self, name: &Name, allocation: AllocationId, wait: Duration) -> Result<bool> {
        let until = Instant::now() + wait;
        match self.own(name, allocation)? {
            None | Some(Power::Off) => return Ok(true),
            Some(Power::Running) => {}
        }
        // The agent in the guest if there is one, else the power button; a guest without either does not answer.
        let args = ["shutdown", "--domain", name.as_str(), "--mode"];
        let agent = self.virsh(&[&args[..], &["agent"]].concat());
        if agent.is_err() && self.virsh(&[&args[..], &["acpi"]].concat()).is_err() {
            return self.wait_off(name, Instant::now());
        }
        self.wait_off(name, until)
    }

    fn ensure_off(&self, name: &Name, allocation: AllocationId) -> Result<()> {
        let limit = match self.own_and_limit(name, allocation)? {
            None | Some((State::Off, _)) => return Ok(()),
            Some((State::Running | State::Between, limit)) => limit,
        };
        let until = Instant::now() + limit;
        let ended = self.virsh_within(&["destroy", "--domain", name.as_str()], limit);
        // It may have ended by itself just before; and libvirt gives up on a large one long before that has ended.
        if self.wait_off(name, until.max(Instant::now() + LIMIT))? {
            Ok(())
        } else {
            ended.map(drop)
        }
    }

    fn ensure_no_machine(&self, name: &Name, allocation: AllocationId) -> Result<()> {
        match self.own(name, allocation) {
            Ok(None) | Err(Error::Slice { .. }) => return Ok(()),
            Ok(Some(_)) => {}
            Err(error) => return Err(error),
        }
        self.ensure_off(name, allocation)?;
        let gone = self.virsh(&["undefine", "--nvram", "--domain", name.as_str()]);
        match self.defined(name.as_str())? {
            None => Ok(()),
            Some(_) => gone.and(Err(refused(name, "libvirt, which does not let go of it"))),
        }
    }

    fn holder_of_device(&self, device: Pci) -> Result<Option<String>> {
        self.holder(|defined| defined.devices.contains(&device))
    }

    fn holder_of_disk(&self, disk: &DiskId) -> Result<Option<String>> {
        let path = self.settings.disks_dir.join(disk.as_str());
        let target = std::fs::canonicalize(&path).ok();
        let same = |found: &Path| found == path || target.is_some() && std::fs::canonicalize(found).ok() == target;
        self.holder(|defined| defined.disks.iter().any(|found| same(found)))
    }
}

fn refused(name: &Name, holder: &str) -> Error {
    slice_error(Code::VmRefused, name.as_str(), format!("the VM belongs to {holder}"))
}

fn absent(name: &Name) -> Error {
    slice_error(Code::VmMissing, name.as_str(), "there is no such VM".to_owned())
}

fn unreadable(name: &str) -> Error {
    slice_error(
        Code::HostCommandFailed,
        name,
        "its definition cannot be read".to_owned(),
    )
}

fn slice_error(code: Code, subject: &str, why: String) -> Error {
    let subject = subject.to_owned();
    Error::Slice { code, subject, why }
}
