//! Everything a uid owns on the writable local mounts, found by walking each mount by descriptors: never through a
//! symbolic link, never into another mount. A tenant's directory goes as a whole, whoever owns what is in it.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, fstat, open, openat2, statat};
use rustix::io::Errno;

use super::Users;
use super::home::{HERE, OPEN_DIR};
use super::trash::{TRASH, Trash, is_dots};
use crate::error::Doing;
use crate::{Error, Result};

const LIMIT: Duration = Duration::from_secs(240);
/// No tree of the host's own is as deep; a tenant's is not walked but taken away.
const MAX_DEPTH: usize = 200;
const MAX_NAMED: usize = 20;

impl Users {
    pub(super) fn remove_files(&self, uid: u32) -> Result<()> {
        self.unmount_sessions(uid)?;
        for at in self.writable_mounts()? {
            let Some(base) = open_mount(&at)? else { continue };
            let mut walk = Walk::new(uid, Some(Trash::new(&base)));
            walk.dir(&base, &at, 0)?;
            // What could not be removed is found by whoever looks next.
            walk.trash
                .map_or(Ok(()), Trash::empty)
                .or_else(still_there)
                .doing(|| format!("clear {}", at.display()))?;
        }
        Ok(())
    }

    /// Some of what the uid owns, by path, and every place where we could not look.
    pub(super) fn find_files(&self, uid: u32) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for at in self.writable_mounts()? {
            let Some(base) = open_mount(&at)? else { continue };
            let mut walk = Walk::new(uid, None);
            if fstat(&base).doing(|| format!("look at {}", at.display()))?.st_uid == uid {
                walk.found.push(at.display().to_string());
            }
            walk.dir(&base, &at, 0)?;
            found.extend(walk.found);
        }
        Ok(found)
    }
}

fn still_there(error: Errno) -> rustix::io::Result<()> {
    if matches!(error, Errno::NOTEMPTY | Errno::BUSY) {
        Ok(())
    } else {
        Err(error)
    }
}

/// None for a mount that is a single file, or is hidden or gone by now.
fn open_mount(at: &Path) -> Result<Option<OwnedFd>> {
    match open(
        at,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Ok(base) => Ok(Some(base)),
        Err(Errno::NOTDIR | Errno::NOENT) => Ok(None),
        Err(error) => Err(error).doing(|| format!("open {}", at.display())),
    }
}

struct Walk<'a> {
    uid: u32,
    /// None: only look.
    trash: Option<Trash<'a>>,
    found: Vec<String>,
    until: Instant,
}

impl<'a> Walk<'a> {
    fn new(uid: u32, trash: Option<Trash<'a>>) -> Self {
        Self {
            uid,
            trash,
            found: Vec::new(),
            until: Instant::now() + LIMIT,
        }
    }

    fn dir(&mut self, dir: &OwnedFd, path: &Path, depth: usize) -> Result<()> {
        if Instant::now() > self.until {
            return Err(Error::Timeout {
                what: "looking for files",
                limit_s: LIMIT.as_secs(),
            });
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
            let is_trash = self.trash.is_some() && depth == 0 && name == TRASH;
            if !is_dots(name) && !is_trash {
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
                    trash.take(dir, name);
                }
            }
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
