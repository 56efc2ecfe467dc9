//! Would the host, at its next start, take for its own what a tenant has written to a disk? It would where it finds a
//! file system by a label, and a disk of a slot has the same.

use super::Ready;
use crate::Result;

/// What the kernel's command line says of file systems that are used from the start on.
const AT_START: [&str; 3] = ["root=", "resume=", "mount.usr="];
/// A tenant can choose these at will. (A UUID as well, but would have to know it.)
const BY_LABEL: [&str; 4] = ["LABEL=", "PARTLABEL=", "/dev/disk/by-label/", "/dev/disk/by-partlabel/"];

impl Ready {
    pub(super) fn root_by_label(&self, cmdline: &str) -> Result<Option<String>> {
        let words = cmdline.split_whitespace();
        let mut started = words.filter_map(|word| AT_START.iter().find_map(|name| word.strip_prefix(name)));
        if let Some(named) = started.find(|named| by_label(named)) {
            return Ok(Some(format!("the kernel's command line names {named}")));
        }
        let table = self.sys.optional("etc/fstab")?.unwrap_or_default();
        let mut first = table.lines().filter_map(|line| line.split_whitespace().next());
        Ok(first
            .find(|named| by_label(named))
            .map(|named| format!("/etc/fstab names {named}")))
    }
}

fn by_label(named: &str) -> bool {
    BY_LABEL.iter().any(|start| named.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::by_label;

    #[test]
    fn a_label_is_told_from_what_nobody_can_choose() {
        for named in [
            "LABEL=x",
            "PARTLABEL=x",
            "LABEL=\"x\"",
            "/dev/disk/by-label/x",
            "/dev/disk/by-partlabel/x",
        ] {
            assert!(by_label(named), "{named}");
        }
        for named in [
            "UUID=x",
            "PARTUUID=x",
            "/dev/mapper/LABEL=x",
            "/dev/sda1",
            "#LABEL=x",
            "tmpfs",
        ] {
            assert!(!by_label(named), "{named}");
        }
    }
}
