//! VMs by way of libvirt: a definition that we wrote, handed over as a file, and the few verbs of `virsh`. Whether one is
//! ours stands in its metadata; another's is refused or left alone. No name or number reaches a shell or an option.

mod domain;
mod layout;
mod scan;
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
use domain::NAMESPACE;
pub use domain::{Cell, Layout, domain};
use scan::{Tag, tags};

const LIMIT: Duration = Duration::from_secs(120);
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

/// One definition, as far as it matters here.
struct Defined {
    allocation: Option<AllocationId>,
    devices: Vec<Pci>,
    disks: Vec<PathBuf>,
}

impl Machines {
    pub fn new(settings: Settings) -> Self {
        let commands = Commands::under("/".into());
        Self { settings, commands }
    }

    fn virsh(&self, args: &[&str]) -> Result<String> {
        let all = [&["--quiet", "--connect", &self.settings.uri], args].concat();
        self.commands.ask(Program::Virsh, &all, LIMIT)
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

    fn power(&self, name: &Name) -> Result<Power> {
        let said = self.virsh(&["domstate", "--domain", name.as_str()])?;
        Ok(match said.trim() {
            "shut off" | "crashed" => Power::Off,
            _ => Power::Running,
        })
    }

    /// The definition if it is this allocation's; None if there is none.
    fn own(&self, name: &Name, allocation: AllocationId) -> Result<Option<Power>> {
        match self.defined(name.as_str())? {
            None => Ok(None),
            Some(defined) if defined.allocation == Some(allocation) => self.power(name).map(Some),
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
            Some(Power::Running) => return Ok(()),
            Some(Power::Off) | None => self.define(machine)?,
        }
        self.ensure_started(&machine.name, machine.allocation)
    }

    fn ensure_started(&self, name: &Name, allocation: AllocationId) -> Result<()> {
        match self.own(name, allocation)? {
            Some(Power::Running) => Ok(()),
            Some(Power::Off) => self.virsh(&["start", "--domain", name.as_str()]).map(drop),
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
        if self.own(name, allocation)? != Some(Power::Running) {
            return Ok(());
        }
        let ended = self.virsh(&["destroy", "--domain", name.as_str()]);
        // It may have ended by itself just before.
        if self.wait_off(name, Instant::now() + LIMIT)? {
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

/// None if it is not to be understood, or names a device in a way that we do not know.
fn read(xml: &str) -> Option<Defined> {
    let mut defined = Defined {
        allocation: None,
        devices: Vec::new(),
        disks: Vec::new(),
    };
    let (mut in_hostdev, mut in_disk, mut in_source) = (false, false, false);
    for tag in &tags(xml)? {
        let opens = !tag.closes && !tag.empty;
        match tag.name.as_str() {
            "hostdev" => in_hostdev = opens,
            "disk" => in_disk = opens,
            "source" => {
                in_source = opens;
                let path = tag.get("dev").or(tag.get("file"));
                defined
                    .disks
                    .extend(path.filter(|_| in_disk && !tag.closes).map(PathBuf::from));
            }
            "address" if in_hostdev && in_source => defined.devices.push(pci(tag)?),
            "slice" if tag.get("xmlns") == Some(NAMESPACE) => {
                defined.allocation = tag.get("allocation")?.parse().ok();
            }
            _ => {}
        }
    }
    Some(defined)
}

fn pci(tag: &Tag) -> Option<Pci> {
    let number = |name: &str| u32::from_str_radix(tag.get(name)?.strip_prefix("0x")?, 16).ok();
    let byte = |name: &str| u8::try_from(number(name)?).ok();
    Pci::new(number("domain")?, byte("bus")?, byte("slot")?, byte("function")?)
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

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn what_a_vm_has_is_read_from_its_definition() {
        let xml = "<domain><metadata><slice xmlns='urn:gpuaas:slice:1' allocation='alloc_00000000000000000000000004'/>\
            </metadata><devices><disk type='block'><source dev='/dev/disk/by-id/nvme-a' index='1'/></disk>\
            <interface><source bridge='x'/></interface><hostdev mode='subsystem'><driver name='vfio'/><source>\
            <address domain='0x0000' bus='0x18' slot='0x00' function='0x1'/></source>\
            <address type='pci' domain='0x0000' bus='0x05' slot='0x00' function='0x0'/></hostdev></devices></domain>";
        let seen = read(xml).expect("readable");
        assert_eq!(seen.disks, [std::path::PathBuf::from("/dev/disk/by-id/nvme-a")]);
        assert_eq!(
            seen.devices.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["0000:18:00.1"]
        );
        assert!(seen.allocation.is_some());
    }
}
