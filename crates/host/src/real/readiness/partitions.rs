//! To which part of the fabric each virtual function is confined: the VLAN that its port gives it. Some drivers show it
//! in a file; of the others the kernel is asked. What the subnet manager of an InfiniBand fabric decides is not known to
//! the host: a function that nothing is said about is not confined.

use std::collections::BTreeMap;
use std::time::Duration;

use model::value::Pci;
use serde::Deserialize;

use super::super::command::Program;
use super::Ready;
use crate::Result;

const PCI: &str = "sys/bus/pci/devices";
const LIMIT: Duration = Duration::from_secs(10);

/// What `ip -j link show` says of a port.
#[derive(Deserialize)]
struct Link {
    ifname: String,
    #[serde(default)]
    vfinfo_list: Vec<VirtualFunction>,
}

#[derive(Deserialize)]
struct VirtualFunction {
    vf: u32,
    #[serde(default)]
    vlan_list: Vec<Vlan>,
}

#[derive(Deserialize)]
struct Vlan {
    #[serde(default)]
    vlan: u32,
}

impl Ready {
    pub(super) fn partitions(&self) -> Result<BTreeMap<Pci, String>> {
        let mut vlans = self.vlans_in_files()?;
        if self.has_command("ip") && !self.sys.names("sys/class/net")?.is_empty() {
            let said = self.commands.ask(Program::Ip, &["-j", "link", "show"], LIMIT)?;
            vlans.extend(self.vlans_of(&said)?);
        }
        Ok(vlans
            .into_iter()
            .map(|(pci, vlan)| (pci, format!("vlan {vlan}")))
            .collect())
    }

    fn vlans_in_files(&self) -> Result<Vec<(Pci, u32)>> {
        let mut found = Vec::new();
        for port in self.sys.names(PCI)? {
            for number in self.sys.names(&format!("{PCI}/{port}/sriov"))? {
                let config = self.sys.attribute(&format!("{PCI}/{port}/sriov/{number}/config"));
                let vlan = config.as_deref().and_then(vlan_of).filter(|vlan| *vlan > 0);
                found.extend(self.virtual_function(&port, &number)?.zip(vlan));
            }
        }
        Ok(found)
    }

    fn vlans_of(&self, said: &str) -> Result<Vec<(Pci, u32)>> {
        let mut found = Vec::new();
        let links: Vec<Link> = serde_json::from_str(said).unwrap_or_default();
        for link in links {
            let Some(port) = self.sys.link_name(&format!("sys/class/net/{}/device", link.ifname))? else {
                continue;
            };
            for function in link.vfinfo_list {
                let vlan = function.vlan_list.iter().map(|vlan| vlan.vlan).find(|vlan| *vlan > 0);
                found.extend(self.virtual_function(&port, &function.vf.to_string())?.zip(vlan));
            }
        }
        Ok(found)
    }

    fn virtual_function(&self, port: &str, number: &str) -> Result<Option<Pci>> {
        let name = self.sys.link_name(&format!("{PCI}/{port}/virtfn{number}"))?;
        Ok(name.and_then(|name| name.parse().ok()))
    }
}

/// `VLAN       : 100`
fn vlan_of(config: &str) -> Option<u32> {
    let mut lines = config.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(key, _)| key.trim() == "VLAN")?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_saying_it_are_understood() {
        assert_eq!(
            vlan_of("VF         : 0\nMAC        : 02:00:00:00:00:01\nVLAN       : 100\n"),
            Some(100)
        );
        let said = r#"[{"ifname":"lo"},{"ifname":"p0","mtu":1500,"vfinfo_list":[{"vf":0,"mac":"x"},{"vf":1,"vlan_list":[{"vlan":7,"qos":0}]}]}]"#;
        let links: Vec<Link> = serde_json::from_str(said).expect("typed");
        assert_eq!(
            (links[1].vfinfo_list[1].vf, links[1].vfinfo_list[1].vlan_list[0].vlan),
            (1, 7)
        );
    }
}
