//! Everything a uid owns on the writable local mounts, found by walking each mount by descriptors: never through a
//! symbolic link, never into another mount. A tenant's directory goes as a whole, whoever owns what is in it.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, fchown, fstat, open, openat2, statat};
use rustix::io::Errno;

use super::Users;
use super::deadline::Deadline;
use super::home::{HERE, OPEN_DIR};
use super::trash::{Trash, is_dots};
use crate::Result;
use crate::error::Doing;

/// For a whole verb: finding and removing, or looking everywhere.
const REMOVAL_LIMIT: Duration = Duration::from_secs(140);
/// No tree of the host's own is as deep; a tenant's is not walked but taken away.
const MAX_DEPTH: usize = 200;
const MAX_NAMED: usize = 20;
/// Where anybody may leave something.
const OPEN_TO_ALL: [&str; 3] = ["tmp", "var/tmp", "dev/shm"];

impl Users {
    pub(super) fn remove_files(&self, uid: u32) -> Result<()> {
        let deadline = Deadline::within(REMOVAL_LIMIT, "removing files");
        self.unmount_own(uid)?;
        for mount in self.writable_mounts()? {
            let Some(base) = mount.open()? else { continue };
            let looking = || format!("look at {}", mount.at.display());
            if fstat(&base).doing(looking)?.st_uid == uid {
                // The top of a mount cannot be removed, only taken back.
                fchown(&base, Some(Uid::ROOT), Some(Gid::ROOT)).doing(looking)?;
            }
            let mut walk = Walk::new(uid, Some(Trash::new(&base, deadline)), deadline);
            walk.dir(&base, &mount.at, 0)?;
            // What could not be removed is found by whoever looks next.
            walk.trash.map_or(Ok(true), Trash::empty)?;
        }
        Ok(())
    }

    /// Some of what the uid owns, by path, and every place where we could not look.
    pub(super) fn find_files(&self, uid: u32, deadline: Deadline) -> Result<Vec<String>> {
        let own = self.own_mounts(uid)?;
        let mut found: Vec<_> = own.iter().map(|mount| mount.at.display().to_string()).collect();
        for mount in self.writable_mounts()? {
            let Some(base) = mount.open()? else { continue };
            let mut walk = Walk::new(uid, None, deadline);
            let looking = || format!("look at {}", mount.at.display());
            if fstat(&base).doing(looking)?.st_uid == uid {
                walk.note(&mount.at);
            }
            walk.dir(&base, &mount.at, 0)?;
            found.extend(walk.found);
        }
        Ok(found)
    }

    /// The same in the few places where a stranger's files would be met first: those open to all, and among the homes.
    pub(super) fn find_files_in_the_open(&self, uid: u32, deadline: Deadline) -> Result<Vec<String>> {
        let mut walk = Walk::new(uid, None, deadline);
        for place in OPEN_TO_ALL {
            let path = self.path(place);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match open(&path, flags, Mode::empty()) {
                Ok(dir) => walk.dir(&dir, &path, 0)?,
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error).doing(|| format!("open {}", path.display())),
            }
        }
        let (path, homes) = (self.path("home"), self.homes()?);
        for entry in Dir::read_from(&homes).doing(|| "list /home".to_owned())? {
            let entry = entry.doing(|| "list /home".to_owned())?;
            match statat(&homes, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if stat.st_uid != uid => {}
                Err(Errno::NOENT) => {}
                // What cannot be looked at may be theirs.
                Ok(_) | Err(_) => walk.note(&path.join(entry.file_name().to_string_lossy().as_ref())),
            }
        }
        Ok(walk.found)
    }
}

struct Walk<'a> {
    uid: u32,
    /// None: only look.
    trash: Option<Trash<'a>>,
    found: Vec<String>,
    deadline: Deadline,
}

impl<'a> Walk<'a> {
    fn new(uid: u32, trash: Option<Trash<'a>>, deadline: Deadline) -> Self {
        Self {
            uid,
            trash,
            found: Vec::new(),
            deadline,
        }
    }

    fn dir(&mut self, dir: &OwnedFd, path: &Path, depth: usize) -> Result<()> {
        self.deadline.check()?;
        // Enough to say that it is not gone, and what to look at.
        if self.found.len() >= MAX_NAMED {
            return Ok(());
        }
        if depth > MAX_DEPTH {
            self.note(path);
            return Ok(());
        }
        let entries = Dir::read_from(dir).doing(|| format!("list {}", path.display()))?;
        for entry in entries {
            let Ok(entry) = entry else {
                self.note(path);
                return Ok(());
            };
            let name = entry.file_name();
            if !is_dots(name) {
                self.entry(dir, name, path, depth)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, dir: &OwnedFd, name: &CStr, path: &Path, depth: usize) -> Result<()> {
        let here = || path.join(PathBuf::from(String::from_utf8_lossy(name.to_bytes()).into_owned()));
        let stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(()),
            Err(_) => {
                self.note(&here());
                return Ok(());
            }
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if stat.st_uid == self.uid {
            match &mut self.trash {
                None => self.note(&here()),
                // A terminal lent to a session: the host wants it back, not gone.
                Some(_) if matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) => {
                    let returned = chownat(dir, name, Some(Uid::ROOT), Some(Gid::ROOT), AtFlags::SYMLINK_NOFOLLOW);
                    returned.doing(|| format!("take back {}", here().display()))?;
                }
                Some(trash) => {
                    trash.take_from(self.uid, dir, name);
                }
            }
        } else if self.trash.as_ref().is_some_and(|trash| trash.is(&stat)) {
            // Has its own turn.
        } else if kind == FileType::Directory {
            match openat2(dir, name, OPEN_DIR, Mode::empty(), HERE) {
                Ok(inner) => self.dir(&inner, &here(), depth + 1)?,
                // Another mount has its own turn; what is gone is gone.
                Err(Errno::XDEV | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(_) => self.note(&here()),
            }
        }
        Ok(())
    }

    fn note(&mut self, path: &Path) {
        if self.found.len() < MAX_NAMED {
            self.found.push(path.display().to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn a_walk_ends_with_the_time_of_its_verb() {
        let root = open("/", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("a root");
        let mut walk = Walk::new(20001, None, Deadline::within(Duration::ZERO, "looking"));
        let outcome = walk.dir(&root, Path::new("/"), 0);
        assert!(matches!(outcome, Err(Error::Timeout { what: "looking", .. })));
    }
}
