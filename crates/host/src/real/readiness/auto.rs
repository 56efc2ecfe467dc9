//! Would the host, of its own accord, take hold of what a tenant writes to a disk? Then a tenant could keep a slot from
//! being released at will. Read from the configuration of LVM and mdadm, where they are installed.

use super::Ready;
use crate::Result;
use crate::readiness::{LVM_WORDS, MD_WORDS};

impl Ready {
    pub(super) fn lvm_autoactivation(&self) -> Result<Option<String>> {
        if !self.has_command("lvm") {
            return Ok(None);
        }
        let config = self.sys.optional("etc/lvm/lvm.conf")?.unwrap_or_default();
        let lists_devices =
            setting(&config, "use_devicesfile") != Some("0") && self.sys.has("etc/lvm/devices/system.devices");
        let filters = ["global_filter", "filter"]
            .iter()
            .filter_map(|name| setting(&config, name));
        let rejects =
            |filter: &str| filter.contains("\"r|.*|\"") || (filter.contains("\"r|") && filter.contains("nvme"));
        if lists_devices || setting(&config, "event_activation") == Some("0") || filters.into_iter().any(rejects) {
            return Ok(None);
        }
        Ok(Some(LVM_WORDS.to_owned()))
    }

    pub(super) fn md_autoassembly(&self) -> Result<Option<String>> {
        if !self.has_command("mdadm") {
            return Ok(None);
        }
        for path in ["etc/mdadm/mdadm.conf", "etc/mdadm.conf"] {
            let config = self.sys.optional(path)?.unwrap_or_default();
            let mut auto = config.lines().filter_map(|line| line.trim().strip_prefix("AUTO "));
            if auto.any(|rule| rule.split_whitespace().next_back() == Some("-all")) {
                return Ok(None);
            }
        }
        Ok(Some(MD_WORDS.to_owned()))
    }
}

/// The value of `name = value` in a line that is no comment; the last one counts.
fn setting<'a>(config: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = config
        .lines()
        .rev()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'));
    lines.find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == name).then_some(value.trim())
    })
}
