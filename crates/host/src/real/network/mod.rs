//! Ports of guests on an Open vSwitch bridge, and their addresses in the directory that dnsmasq reads. The flows are
//! there before the port and go after it. A port carries the allocation it was made for, and another one's is refused.

mod addresses;
mod flows;

use std::fs;
use std::io::{Seek, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::id::AllocationId;
use model::signal::Code;
use model::value::{Ipv4Cidr, Name};
use rustix::fs::{MemfdFlags, memfd_create};

use super::command::{Commands, Output, Program, With};
use super::dhcp;
use super::sys::Sys;
use super::whole::Folder;
use crate::error::Doing;
use crate::{Error, Plug, Port, Result};
use addresses::{address_of, has_interface, own_addresses};
use flows::instead;
pub use flows::{Surroundings, cookie, flows};

const LIMIT: Duration = Duration::from_secs(30);
/// How `ovs-ofctl diff-flows` ends when it has found a difference.
const DIFFER: i32 = 2;
/// Where the switch notes whose a port is.
const OWNER: &str = "gpuaas-allocation";

/// Where the host keeps its network's things.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Closed networks that are open to guests here.
    pub reachable: Vec<Ipv4Cidr>,
    /// `db.sock` and the bridges' own sockets.
    pub switch_dir: PathBuf,
    /// What dnsmasq was told as `--dhcp-hostsdir`.
    pub hosts_dir: PathBuf,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            reachable: Vec::new(),
            switch_dir: "/run/openvswitch".into(),
            hosts_dir: "/var/lib/gpuaas/dhcp-hosts".into(),
        }
    }
}

pub struct Network {
    settings: Settings,
    commands: Commands,
}

impl Network {
    pub fn new(settings: Settings) -> Self {
        let commands = Commands::under("/".into());
        Self { settings, commands }
    }

    fn switch(&self, args: &[&str]) -> Result<String> {
        let database = format!("--db=unix:{}/db.sock", self.settings.switch_dir.display());
        let all = [&[database.as_str(), "--timeout=20"], args].concat();
        self.commands.ask(Program::OvsVsctl, &all, LIMIT)
    }

    fn bridge_socket(&self, bridge: &Name) -> String {
        format!("unix:{}/{bridge}.mgmt", self.settings.switch_dir.display())
    }

    /// Whose the port is and where it is plugged in: None if nowhere, an empty text if it is not one of ours.
    fn plugged(&self, plug: &Plug) -> Result<Option<(String, String)>> {
        let interface = plug.interface();
        let rows = self.switch(&[
            "--bare",
            "--columns=name",
            "find",
            "interface",
            &format!("name={interface}"),
        ])?;
        if rows.trim() != interface {
            return Ok(None);
        }
        let bridge = self.switch(&["iface-to-br", &interface])?.trim().to_owned();
        let key = format!("external_ids:{OWNER}");
        let owner = self.switch(&["--if-exists", "get", "interface", &interface, &key])?;
        Ok(Some((owner.trim().trim_matches('"').to_owned(), bridge)))
    }

    fn reserved(&self, plug: &Plug) -> Result<Option<AllocationId>> {
        let Some(folder) = Folder::open(&self.settings.hosts_dir)? else {
            return Ok(None);
        };
        let Some(text) = folder.read(plug.vm.as_str())? else {
            return Ok(None);
        };
        let owner = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let owner = owner.and_then(|owner| owner.parse().ok());
        owner.map(Some).ok_or_else(|| refused(plug, "nobody we know"))
    }

    fn surroundings(&self, port: &Port) -> Result<Surroundings> {
        Ok(Surroundings {
            gateway: address_of(&port.bridge)?,
            own: own_addresses()?,
            reachable: self.settings.reachable.clone(),
        })
    }

    /// What the switch is told, or asked, about flows.
    fn with_flows(lines: &str, output: Output) -> Result<With> {
        let doing = || "hand flows to the switch".to_owned();
        let mut file = fs::File::from(memfd_create("flows", MemfdFlags::CLOEXEC).doing(doing)?);
        file.write_all(lines.as_bytes()).doing(doing)?;
        file.rewind().doing(doing)?;
        let input = Some(file);
        let as_nobody = false;
        Ok(With {
            input,
            output,
            as_nobody,
        })
    }

    /// All at once: whatever goes through the port meanwhile meets the old flows or the new ones.
    fn set_flows(&self, port: &Port) -> Result<()> {
        let with = Self::with_flows(&instead(port, &self.surroundings(port)?), Output::Dropped)?;
        let args = ["--bundle", "add-flows", &self.bridge_socket(&port.bridge), "-"];
        self.commands.run_with(Program::OvsOfctl, &args, with, LIMIT)?.ok()
    }

    /// Each of them as it was set, and no more under this cookie. What others have set is theirs.
    fn has_flows(&self, port: &Port) -> Result<bool> {
        let socket = self.bridge_socket(&port.bridge);
        let wanted = flows(port, &self.surroundings(port)?);
        let all = flows::all_of(&port.plug.vm);
        let there = ["--no-stats", "dump-flows", &socket, &all];
        let there = self.commands.ask(Program::OvsOfctl, &there, LIMIT)?;
        if there.lines().filter(|line| line.contains("actions=")).count() != wanted.lines().count() {
            return Ok(false);
        }
        let with = Self::with_flows(&wanted, Output::Kept)?;
        let args = ["diff-flows", &socket, "/proc/self/fd/0"];
        let ended = self.commands.run_with(Program::OvsOfctl, &args, with, LIMIT)?;
        let differ = ended.said_or(DIFFER)?;
        Ok(!differ.lines().any(|line| line.starts_with('+')))
    }

    /// The line for dnsmasq, and above it, as a comment, whose it is.
    fn reservation(port: &Port) -> String {
        let Port { plug, mac, ip, .. } = port;
        format!("# {}\n{mac},{ip},{}\n", plug.allocation, plug.vm)
    }

    fn has_reservation(&self, port: &Port) -> Result<bool> {
        let Some(folder) = Folder::open(&self.settings.hosts_dir)? else {
            return Ok(false);
        };
        let text = folder.read(port.plug.vm.as_str())?;
        Ok(text == Some(Self::reservation(port)))
    }

    fn drop_flows(&self, vm: &Name, bridge: &Name) -> Result<()> {
        let args = ["del-flows", &self.bridge_socket(bridge), &flows::all_of(vm)];
        self.commands.ask(Program::OvsOfctl, &args, LIMIT).map(drop)
    }

    fn bridges(&self) -> Result<Vec<String>> {
        Ok(self.switch(&["list-br"])?.lines().map(str::to_owned).collect())
    }

    /// What the host sends to everybody is sent to no guest; the flows let through what each is meant to have.
    fn keep_from_flood(&self, port: &Port) -> Result<()> {
        let number = port.plug.number().to_string();
        let args = ["mod-port", &self.bridge_socket(&port.bridge), &number, "no-flood"];
        self.commands.run(Program::OvsOfctl, &args, None, LIMIT)?.ok()
    }

    fn is_kept_from_flood(&self, port: &Port) -> Result<bool> {
        let args = ["dump-ports-desc", &self.bridge_socket(&port.bridge)];
        let said = self.commands.ask(Program::OvsOfctl, &args, LIMIT)?;
        Ok(has_no_flood(&said, port.plug.number()))
    }

    fn ip(&self, args: &[&str]) -> Result<()> {
        self.commands.run(Program::Ip, args, None, LIMIT)?.ok()
    }
}

impl crate::Network for Network {
    fn check_bridge(&self, bridge: &Name) -> Result<()> {
        let missing = |why: &str| Error::Slice {
            code: Code::SliceBridgeMissing,
            subject: bridge.to_string(),
            why: why.to_owned(),
        };
        if !self.bridges()?.iter().any(|there| there == bridge.as_str()) {
            return Err(missing("the switch has no such bridge"));
        }
        match address_of(bridge)? {
            Some(_) => Ok(()),
            None => Err(missing("it has no address, so guests would have no gateway")),
        }
    }

    fn address(&self, bridge: &Name) -> Result<Option<Ipv4Addr>> {
        address_of(bridge)
    }

    fn ensure_port(&self, port: &Port) -> Result<()> {
        let Port { plug, bridge, .. } = port;
        self.check_bridge(bridge)?;
        let allocation = plug.allocation.to_string();
        match self.plugged(plug)? {
            Some((owner, there)) if owner != allocation || there != bridge.as_str() => {
                return Err(refused(plug, &owner));
            }
            Some(_) | None => {}
        }
        if let Some(owner) = self.reserved(plug)?
            && owner != plug.allocation
        {
            return Err(refused(plug, &owner.to_string()));
        }
        self.set_flows(port)?;
        let interface = plug.interface();
        if !has_interface(&interface)? {
            self.ip(&["tuntap", "add", "dev", &interface, "mode", "tap"])?;
        }
        self.ip(&["link", "set", "dev", &interface, "up"])?;
        let number = format!("ofport_request={}", plug.number());
        let owned = format!("external_ids:{OWNER}={allocation}");
        let add = ["--may-exist", "add-port", bridge.as_str(), &interface];
        let set = ["--", "set", "interface", &interface, &number, &owned];
        self.switch(&[&add[..], &set[..]].concat())?;
        let given = self.switch(&["get", "interface", &interface, "ofport"])?;
        if given.trim() != plug.number().to_string() {
            return Err(refused(plug, "another port, which has its number"));
        }
        self.keep_from_flood(port)?;
        // dnsmasq runs as a user of its own and has to read it.
        let folder = Folder::ensure_with(&self.settings.hosts_dir, 0o755)?;
        folder.write(plug.vm.as_str(), Self::reservation(port).as_bytes(), 0o644)
    }

    fn ensure_no_port(&self, plug: &Plug) -> Result<()> {
        match self.reserved(plug) {
            Ok(Some(owner)) if owner == plug.allocation => {
                Folder::ensure_with(&self.settings.hosts_dir, 0o755)?.remove(plug.vm.as_str())?;
            }
            Ok(_) | Err(Error::Slice { .. }) => {}
            Err(error) => return Err(error),
        }
        dhcp::nudge(&Sys::under(Path::new("/")))?;
        let interface = plug.interface();
        match self.plugged(plug)? {
            Some((owner, _)) if owner != plug.allocation.to_string() => return Ok(()),
            Some((_, bridge)) => {
                self.switch(&["--if-exists", "del-port", &bridge, &interface])?;
            }
            None => {}
        }
        if has_interface(&interface)? {
            self.ip(&["link", "delete", "dev", &interface])?;
        }
        // Wherever it was plugged in once.
        let bridges = self.bridges()?;
        let known = bridges.iter().filter_map(|bridge| bridge.parse().ok());
        known
            .into_iter()
            .try_for_each(|bridge: Name| self.drop_flows(&plug.vm, &bridge))
    }

    fn is_whole(&self, port: &Port) -> Result<bool> {
        let Port { plug, bridge, .. } = port;
        let own = (plug.allocation.to_string(), bridge.to_string());
        if self.plugged(plug)? != Some(own) || !has_interface(&plug.interface())? {
            return Ok(false);
        }
        Ok(self.has_flows(port)? && self.is_kept_from_flood(port)? && self.has_reservation(port)?)
    }

    fn has_port(&self, plug: &Plug) -> Result<bool> {
        let own = plug.allocation.to_string();
        let plugged = self.plugged(plug)?.is_some_and(|(owner, _)| owner == own);
        let reserved = matches!(self.reserved(plug), Ok(Some(owner)) if owner == plug.allocation);
        Ok(plugged || reserved)
    }
}

fn refused(plug: &Plug, holder: &str) -> Error {
    Error::Slice {
        code: Code::VmRefused,
        subject: plug.interface(),
        why: format!("port, address or name belong to {holder}"),
    }
}

/// ` 17(tap): addr:…`, and below it `     config:     NO_FLOOD`.
fn has_no_flood(said: &str, number: u32) -> bool {
    let start = format!("{number}(");
    let mut lines = said.lines().map(str::trim).skip_while(|line| !line.starts_with(&start));
    let config = lines.find_map(|line| line.strip_prefix("config:"));
    config.is_some_and(|words| words.split_whitespace().any(|word| word == "NO_FLOOD"))
}

#[cfg(test)]
mod tests {
    use super::has_no_flood;

    #[test]
    fn each_port_has_its_own_line() {
        let said = "OFPST_PORT_DESC reply (xid=0x2):\n 1(a): addr:02:00\n     config:     PORT_DOWN NO_FLOOD\n     \
            state:      0\n 11(b): addr:02:01\n     config:     0\n     state:      0\n";
        assert!(has_no_flood(said, 1) && !has_no_flood(said, 11) && !has_no_flood(said, 2));
    }
}
