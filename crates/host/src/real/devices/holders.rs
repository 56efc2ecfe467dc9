//! Who has a VFIO group open, by looking at every process. A process that cannot be looked at is an error: it may be
//! the one.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{Devices, PCI};
use crate::{Holder, Result};

/// Command lines of guests are long.
const CMDLINE_BYTES: u64 = 256 << 10;

impl Devices {
    pub(super) fn holders(&self, group: u32) -> Result<Vec<Holder>> {
        let files = self.files_of(group)?;
        let mut holders = Vec::new();
        for name in self.sys.names("proc")? {
            let Ok(pid) = name.parse::<u32>() else { continue };
            if self.has_open(pid, &files)? {
                holders.push(self.holder(pid));
            }
        }
        Ok(holders)
    }

    /// `/dev/vfio/17`, and one file per function where guests are given those.
    fn files_of(&self, group: u32) -> Result<BTreeSet<PathBuf>> {
        let mut files = BTreeSet::from([PathBuf::from(format!("/dev/vfio/{group}"))]);
        for pci in self.sys.names(&format!("sys/kernel/iommu_groups/{group}/devices"))? {
            let own = self.sys.names(&format!("{PCI}/{pci}/vfio-dev"))?;
            files.extend(
                own.iter()
                    .map(|name| PathBuf::from(format!("/dev/vfio/devices/{name}"))),
            );
        }
        Ok(files)
    }

    fn has_open(&self, pid: u32, files: &BTreeSet<PathBuf>) -> Result<bool> {
        let dir = format!("proc/{pid}/fd");
        for fd in self.sys.names(&dir)? {
            if let Some(target) = self.sys.link(&format!("{dir}/{fd}"))?
                && files.contains(&target)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn holder(&self, pid: u32) -> Holder {
        let program = self.sys.attribute(&format!("proc/{pid}/comm"));
        let cmdline = self
            .sys
            .bytes(&format!("proc/{pid}/cmdline"), CMDLINE_BYTES)
            .ok()
            .flatten();
        Holder {
            pid,
            program: program.unwrap_or_else(|| "ended".to_owned()),
            domain: cmdline.as_deref().and_then(domain),
        }
    }
}

/// QEMU is started with `-name guest=NAME,…` or `-name NAME`.
fn domain(cmdline: &[u8]) -> Option<String> {
    let mut words = cmdline.split(|byte| *byte == 0);
    words.find(|word| *word == b"-name")?;
    let name = String::from_utf8_lossy(words.next()?).into_owned();
    let name = name.split(',').next()?;
    Some(name.strip_prefix("guest=").unwrap_or(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::domain;

    #[test]
    fn a_guest_says_its_name() {
        assert_eq!(
            domain(b"qemu\0-name\0guest=ada,debug-threads=on\0-S\0").as_deref(),
            Some("ada")
        );
        assert_eq!(domain(b"qemu\0-name\0ada\0").as_deref(), Some("ada"));
        assert_eq!(domain(b"qemu\0-S\0"), None);
    }
}
