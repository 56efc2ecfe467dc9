//! Who has a VFIO group open, by looking at every process; and where one lets nobody look, by asking the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use super::Devices;
use crate::{Error, Holder, Result};

/// Command lines of guests are long.
const CMDLINE_BYTES: u64 = 256 << 10;

impl Devices {
    pub(super) fn holders_by_group(&self) -> Result<BTreeMap<u32, Vec<Holder>>> {
        let cdevs = self.cdevs()?;
        let mut holders: BTreeMap<u32, Vec<Holder>> = BTreeMap::new();
        let mut unseen = 0;
        for name in self.sys.names("proc")? {
            let Ok(pid) = name.parse::<u32>() else { continue };
            match self.opened(pid, &cdevs) {
                Ok(groups) => {
                    for group in groups {
                        holders.entry(group).or_default().push(self.holder(pid));
                    }
                }
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => unseen += 1,
                Err(error) => return Err(error),
            }
        }
        if unseen > 0 {
            self.add_unseen(&mut holders)?;
        }
        Ok(holders)
    }

    /// Some processes let nobody look. The kernel opens a group for one at a time, so whoever is told to wait knows
    /// that there is somebody.
    fn add_unseen(&self, holders: &mut BTreeMap<u32, Vec<Holder>>) -> Result<()> {
        for name in self.sys.names("dev/vfio")? {
            let Ok(group) = name.parse::<u32>() else { continue };
            let file = self.sys.path(&format!("dev/vfio/{name}"));
            let opened = open(&file, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
            if opened.is_err_and(|error| error == Errno::BUSY) {
                let program = "a process that lets nobody look".to_owned();
                let unseen = Holder {
                    pid: 0,
                    program,
                    domain: None,
                };
                holders.entry(group).or_insert_with(|| vec![unseen]);
            }
        }
        Ok(())
    }

    /// The file of each function where guests are given those, and the function's group.
    fn cdevs(&self) -> Result<BTreeMap<String, u32>> {
        let mut files = BTreeMap::new();
        for name in self.sys.names("sys/class/vfio-dev")? {
            let group = self
                .sys
                .link_name(&format!("sys/class/vfio-dev/{name}/device/iommu_group"))?;
            files.extend(group.and_then(|group| group.parse().ok()).map(|group| (name, group)));
        }
        Ok(files)
    }

    /// The groups that a process has open: `/dev/vfio/17`, `/dev/vfio/devices/vfio0`.
    fn opened(&self, pid: u32, cdevs: &BTreeMap<String, u32>) -> Result<BTreeSet<u32>> {
        let dir = format!("proc/{pid}/fd");
        let mut groups = BTreeSet::new();
        for fd in self.sys.names(&dir)? {
            let target = self.sys.link(&format!("{dir}/{fd}"))?;
            let Some(file) = target
                .as_deref()
                .and_then(|target| target.strip_prefix("/dev/vfio").ok())
            else {
                continue;
            };
            let file = file.to_string_lossy();
            groups.extend(match file.strip_prefix("devices/") {
                Some(cdev) => cdevs.get(cdev).copied(),
                None => file.parse().ok(),
            });
        }
        Ok(groups)
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
