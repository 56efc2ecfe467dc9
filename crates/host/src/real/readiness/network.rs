//! The slice network as files show it: bridges, forwarding, DHCP, and links over InfiniBand with the netplan that
//! would bring them back. Address translation is kept by the kernel's tables and shown by a program.

use std::time::Duration;

use model::value::{Ipv4Cidr, Name};

use super::super::command::Program;
use super::super::dhcp;
use super::Ready;
use crate::readiness::NetworkState;
use crate::{Error, Result};

/// The kernel's number for links over InfiniBand.
const INFINIBAND: &str = "32";
const LIMIT: Duration = Duration::from_secs(10);

impl Ready {
    pub(super) fn network(&self, bridges: &[Name], _network: Option<Ipv4Cidr>) -> Result<NetworkState> {
        let is_there = |name: &Name| self.sys.has(&format!("sys/class/net/{name}"));
        Ok(NetworkState {
            bridges: bridges.iter().map(|name| (name.clone(), is_there(name))).collect(),
            has_nat: self.has_nat()?,
            forwards: self.sys.optional("proc/sys/net/ipv4/ip_forward")?.as_deref() == Some("1"),
            unplanned_ipoib: self.unplanned_ipoib()?,
            has_dhcp: !dhcp::servers(&self.sys)?.is_empty(),
        })
    }

    /// By the old tables, which a file lists, or by the new ones, which only their program shows.
    fn has_nat(&self) -> Result<Option<bool>> {
        let tables = self.sys.optional("proc/net/ip_tables_names")?.unwrap_or_default();
        if tables.lines().any(|table| table == "nat") {
            return Ok(Some(true));
        }
        if !self.has_command("nft") {
            return Ok(Some(false));
        }
        match self.commands.ask(Program::Nft, &["list", "ruleset"], LIMIT) {
            Ok(ruleset) => Ok(Some(masquerades(&ruleset))),
            Err(Error::Program { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn unplanned_ipoib(&self) -> Result<Vec<String>> {
        let mut links = Vec::new();
        for name in self.sys.names("sys/class/net")? {
            let kind = self.sys.attribute(&format!("sys/class/net/{name}/type"));
            if kind.as_deref() == Some(INFINIBAND) {
                links.push(name);
            }
        }
        for file in self
            .sys
            .names("etc/netplan")?
            .iter()
            .filter(|name| name.ends_with(".yaml"))
        {
            let plan = self.sys.text(&format!("etc/netplan/{file}"))?;
            let mentions = |link: &str| {
                plan.lines()
                    .any(|line| line.trim().trim_matches('"') == format!("{link}:"))
            };
            links.retain(|link| !mentions(link));
        }
        Ok(links)
    }
}

/// Does any rule translate the sender's address? Whose, the owner of the host has decided.
fn masquerades(ruleset: &str) -> bool {
    let words = ruleset.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    words
        .flat_map(str::split_whitespace)
        .any(|word| ["masquerade", "MASQUERADE", "snat"].contains(&word))
}

#[cfg(test)]
mod tests {
    use super::masquerades;

    #[test]
    fn a_rule_that_translates_is_seen() {
        let rules = "table ip nat {\n chain post {\n  ip saddr 10.77.0.0/16 oifname \"eth0\" masquerade\n }\n}";
        assert!(masquerades(rules));
        assert!(!masquerades(
            "table ip filter {\n # masquerade\n chain input { accept }\n}"
        ));
    }
}
