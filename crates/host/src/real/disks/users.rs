//! Who uses a disk or one of its partitions: mounts, swap, and devices made of it. By device number, and for file
//! systems that show none of their own, by what they say they were mounted from.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use super::Disks;
use crate::Result;

impl Disks {
    pub(super) fn users(&self, dir: &str) -> Result<Vec<String>> {
        let mut dirs = vec![dir.to_owned()];
        for name in self.sys.names(dir)? {
            let part = format!("{dir}/{name}");
            if self.sys.has(&format!("{part}/partition")) {
                dirs.push(part);
            }
        }
        let mut numbers = BTreeSet::new();
        let mut users = Vec::new();
        for dir in &dirs {
            numbers.insert(self.sys.text(&format!("{dir}/dev"))?);
            let holders = self.sys.names(&format!("{dir}/holders"))?;
            users.extend(holders.iter().map(|holder| format!("held by {holder}")));
        }
        let mounts = self.sys.text("proc/self/mountinfo")?;
        for (number, at, source) in mounts.lines().filter_map(mount) {
            let is_ours = numbers.contains(number) || self.number_of(source).is_some_and(|it| numbers.contains(&it));
            if is_ours {
                users.push(format!("mounted at {at}"));
            }
        }
        let swaps = self.sys.optional("proc/swaps")?.unwrap_or_default();
        for path in swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()) {
            if self.number_of(path).is_some_and(|number| numbers.contains(&number)) {
                users.push(format!("swap on {path}"));
            }
        }
        Ok(users)
    }

    /// The device number of a block device by this path.
    fn number_of(&self, path: &str) -> Option<String> {
        let meta = std::fs::metadata(self.sys.path(path.strip_prefix('/')?)).ok()?;
        let rdev = meta.rdev();
        let is_block = meta.file_type().is_block_device();
        is_block.then(|| format!("{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev)))
    }
}

/// `id parent major:minor root at options [tags] - kind source super-options`: number, place and source.
fn mount(line: &str) -> Option<(&str, &str, &str)> {
    let fields: Vec<&str> = line.split(' ').collect();
    let dash = 6 + fields.get(6..)?.iter().position(|field| *field == "-")?;
    Some((fields.get(2)?, fields.get(4)?, fields.get(dash + 2)?))
}

#[cfg(test)]
mod tests {
    use super::mount;

    #[test]
    fn a_mount_says_its_number_its_place_and_its_source() {
        let line = "36 35 0:41 / /srv rw,noatime master:1 shared:2 - btrfs /dev/nvme0n1p2 rw";
        assert_eq!(mount(line), Some(("0:41", "/srv", "/dev/nvme0n1p2")));
        assert_eq!(mount("36 35 98:0 /"), None);
    }
}
