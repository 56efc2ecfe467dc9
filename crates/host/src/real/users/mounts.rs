//! The mounts a tenant could have written to: local, writable, with real files. Those that are not looked at are named,
//! so that nobody takes silence for absence.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, open, openat2, statx};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::Users;
use crate::error::Doing;
use crate::{Error, Result};

/// Kernel interfaces without files of anybody.
const KERNEL: &[&str] = &[
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
];
/// What is not on this machine.
const REMOTE: &[&str] = &[
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

#[derive(Debug)]
pub(super) struct Mount {
    id: u64,
    pub(super) at: PathBuf,
    kind: String,
    writable: bool,
    options: String,
}

impl Mount {
    /// Of the file system, as opposed to this mount of it.
    pub(super) fn options(&self) -> impl Iterator<Item = &str> {
        self.options.split(',')
    }

    /// `fuseblk` is a local disk; the others can be anything, anywhere.
    fn is_fuse(&self) -> bool {
        self.kind == "fuse" || self.kind.starts_with("fuse.")
    }

    /// Made by that user, with a program of theirs behind it.
    fn is_made_by(&self, uid: u32) -> bool {
        let own = format!("user_id={uid}");
        self.is_fuse() && self.options().any(|option| option == own)
    }

    fn is_remote(&self) -> bool {
        REMOTE.contains(&self.kind.as_str()) || self.is_fuse()
    }

    fn may_have_files(&self) -> bool {
        self.writable && !KERNEL.contains(&self.kind.as_str())
    }

    /// None for a mount that is a single file, that another one hides, or that is gone by now.
    pub(super) fn open(&self) -> Result<Option<OwnedFd>> {
        let opening = || format!("open {}", self.at.display());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let base = match open(&self.at, flags, Mode::empty()) {
            Ok(base) => base,
            Err(Errno::NOTDIR | Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error).doing(opening),
        };
        let seen = statx(&base, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).doing(opening)?;
        Ok((self.id == 0 || seen.stx_mnt_id == self.id).then_some(base))
    }

    fn is_hidden(&self) -> bool {
        let is_single = std::fs::symlink_metadata(&self.at).is_ok_and(|meta| !meta.is_dir());
        !is_single && matches!(self.open(), Ok(None))
    }
}

impl Users {
    /// Where files of tenants can be, below our root.
    pub(super) fn writable_mounts(&self) -> Result<Vec<Mount>> {
        let mounts = self.mounts()?.into_iter();
        Ok(mounts
            .filter(|mount| mount.may_have_files() && !mount.is_remote())
            .collect())
    }

    /// File systems of the tenant's own making that are still there.
    pub(super) fn own_mounts(&self, uid: u32) -> Result<Vec<Mount>> {
        Ok(self
            .mounts()?
            .into_iter()
            .filter(|mount| mount.is_made_by(uid))
            .collect())
    }

    /// Writable mounts on which we have not looked, with the reason.
    pub(super) fn unseen_mounts(&self) -> Result<Vec<String>> {
        let mounts = self.mounts()?.into_iter().filter(Mount::may_have_files);
        let unseen = mounts.filter_map(|mount| {
            let why = match mount.is_remote() {
                true => &mount.kind,
                false if mount.is_hidden() => "hidden by another mount",
                false => return None,
            };
            Some(format!("{} was not looked at ({why})", mount.at.display()))
        });
        Ok(unseen.collect())
    }

    /// Takes away the tenant's own file systems: their programs are dead, and nothing below them can be removed while
    /// they are there. The runtime directory is the session manager's to unmount, and walked like any other.
    pub(super) fn unmount_own(&self, uid: u32) -> Result<()> {
        for mount in self.own_mounts(uid)? {
            // Whoever could put a link in the way is dead; but what is unmounted is decided here.
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let there = match openat2(CWD, &mount.at, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
                Ok(there) => there,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(error) => return Err(error).doing(|| format!("open {}", mount.at.display())),
            };
            match unmount(format!("/proc/self/fd/{}", there.as_raw_fd()), UnmountFlags::DETACH) {
                // Not a mount any more; or not ours to unmount, and then it is found by whoever looks next.
                Ok(()) | Err(Errno::INVAL | Errno::NOENT | Errno::PERM) => {}
                Err(error) => return Err(error).doing(|| format!("unmount {}", mount.at.display())),
            }
        }
        Ok(())
    }

    pub(super) fn mounts(&self) -> Result<Vec<Mount>> {
        let path = "/proc/self/mountinfo";
        let bytes = std::fs::read(path).doing(|| format!("read {path}"))?;
        let mut mounts = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
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
        if !mounts.iter().any(|mount| is_same(&mount.at, &self.root)) {
            mounts.push(Mount {
                id: 0,
                at: self.root.clone(),
                kind: String::new(),
                writable: true,
                options: String::new(),
            });
        }
        Ok(mounts)
    }
}

fn is_same(a: &Path, b: &Path) -> bool {
    a.components().eq(b.components())
}

/// `id parent major:minor root at options [tags] - kind source super-options`, in bytes: paths need not be text.
fn parse(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    // Blanks within a field are escaped, so the dash stands alone; the sixth field is the earliest that it can follow.
    let dash = 6 + fields.get(6..)?.iter().position(|field| *field == b"-")?;
    let text = |at: usize| Some(String::from_utf8_lossy(fields.get(at)?).into_owned());
    let (options, kind, more) = (text(5)?, text(dash + 1)?, text(dash + 3)?);
    let writable = [&options, &more]
        .iter()
        .all(|options| options.split(',').all(|option| option != "ro"));
    Some(Mount {
        id: text(0)?.parse().ok()?,
        at: unescape(fields.get(4)?),
        kind,
        writable,
        options: more,
    })
}

/// The kernel writes blanks and backslashes as three octal digits.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text;
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
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read_whole() {
        let line = br"36 35 98:0 /mnt1 /a\040b\134c rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = parse(line).expect("well formed");
        assert_eq!(
            (mount.id, mount.at.to_str(), mount.kind.as_str(), mount.writable),
            (36, Some(r"/a b\c"), "ext3", true)
        );
        let line = b"36 35 98:0 / /x rw - tmpfs tmpfs ro,size=4k";
        assert!(!parse(line).expect("well formed").writable);
        assert!(parse(b"36 35 98:0 /").is_none());
    }

    /// One mount with such a name, which a tenant can make, must not stop the look at all others.
    #[test]
    fn a_mount_point_need_not_be_text() {
        let line = b"36 35 0:50 / /home/ada/\xff\xfe rw - fuse.x /dev/fuse\xff rw,user_id=20001,group_id=20001";
        let mount = parse(line).expect("well formed");
        assert_eq!(mount.at.into_os_string().into_vec(), b"/home/ada/\xff\xfe");
        let mount = parse(line).expect("well formed");
        assert!(mount.is_made_by(20001) && !mount.is_made_by(2000) && mount.is_remote());
    }
}
