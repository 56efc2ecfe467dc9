//! The mounts a tenant could have written to: local, writable, with real files.

use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::mount::{UnmountFlags, unmount};

use super::Users;
use crate::error::Doing;
use crate::{Error, Result};

/// Kernel interfaces without files of anybody, and what is not on this machine.
const NOT_OURS: &[&str] = &[
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "devpts",
    "securityfs",
    "debugfs",
    "tracefs",
    "pstore",
    "bpf",
    "configfs",
    "fusectl",
    "binfmt_misc",
    "autofs",
    "rpc_pipefs",
    "nsfs",
    "efivarfs",
    "selinuxfs",
    "mqueue",
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "ceph",
    "9p",
    "afs",
    "lustre",
    "glusterfs",
    "beegfs",
    "gpfs",
    "virtiofs",
];

pub(super) struct Mount {
    pub(super) at: PathBuf,
    kind: String,
    writable: bool,
    options: String,
}

impl Mount {
    /// `fuseblk` is a local disk; the others can be anything, anywhere.
    fn is_fuse(&self) -> bool {
        self.kind == "fuse" || self.kind.starts_with("fuse.")
    }
}

impl Users {
    /// Where files of tenants can be, below our root.
    pub(super) fn writable_mounts(&self) -> Result<Vec<PathBuf>> {
        let is_local = |mount: &Mount| !NOT_OURS.contains(&mount.kind.as_str()) && !mount.is_fuse();
        let mounts = self
            .mounts()?
            .into_iter()
            .filter(|mount| mount.writable && is_local(mount));
        Ok(mounts.map(|mount| mount.at).collect())
    }

    /// Takes away what a session mounted for the tenant: the runtime directory, and file systems of their own making.
    pub(super) fn unmount_sessions(&self, uid: u32) -> Result<()> {
        let runtime = self.path(format!("run/user/{uid}"));
        let own = format!("user_id={uid}");
        for mount in self.mounts()? {
            let is_own = mount.is_fuse() && mount.options.split(',').any(|option| option == own);
            if is_own || mount.at == runtime {
                let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
                unmount(&mount.at, flags).doing(|| format!("unmount {}", mount.at.display()))?;
            }
        }
        Ok(())
    }

    fn mounts(&self) -> Result<Vec<Mount>> {
        let path = "/proc/self/mountinfo";
        let text = std::fs::read_to_string(path).doing(|| format!("read {path}"))?;
        let mut mounts = Vec::new();
        for line in text.lines() {
            let unreadable = || Error::Unreadable {
                path: path.to_owned(),
                why: "a line is too short",
            };
            let mount = parse(line).ok_or_else(unreadable)?;
            // The root directory need not be a mount of its own; then the mount it is on is walked from there.
            if mount.at.starts_with(&self.root) {
                mounts.push(mount);
            }
        }
        if !mounts.iter().any(|mount| mount.at == self.root) {
            mounts.push(Mount {
                at: self.root.clone(),
                kind: String::new(),
                writable: true,
                options: String::new(),
            });
        }
        Ok(mounts)
    }
}

/// `id parent major:minor root at options [tags] - kind source super-options`
fn parse(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let (left, right): (Vec<&str>, Vec<&str>) = (left.split(' ').collect(), right.split(' ').collect());
    let (at, options, kind, more) = (left.get(4)?, left.get(5)?, right.first()?, right.get(2)?);
    let writable = [options, more]
        .iter()
        .all(|options| options.split(',').all(|option| option != "ro"));
    let options = (*more).to_owned();
    Some(Mount {
        at: unescape(at),
        kind: (*kind).to_owned(),
        writable,
        options,
    })
}

/// The kernel writes blanks and backslashes as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail
            .get(..3)
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code.filter(|_| *first == b'\\') {
            Some(code) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read_whole() {
        let line = r"36 35 98:0 /mnt1 /a\040b\134c rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = parse(line).expect("well formed");
        assert_eq!(
            (mount.at.to_str(), mount.kind.as_str(), mount.writable),
            (Some(r"/a b\c"), "ext3", true)
        );
        let line = "36 35 98:0 / /x rw - tmpfs tmpfs ro,size=4k";
        assert!(!parse(line).expect("well formed").writable);
        assert!(parse("36 35 98:0 /").is_none());
    }
}
