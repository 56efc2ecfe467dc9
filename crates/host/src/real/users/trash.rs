//! Removal of trees that a tenant has built, however deep: every directory is first renamed into one directory of
//! root's at the top, so that nobody can follow and we never hold more than a few descriptors or go down a level.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, Mode, RenameFlags, fstat, mkdirat, openat2, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;

use super::home::{HERE, OPEN_DIR};

pub(super) const TRASH: &CStr = c".gpuaas-trash";

/// On the same mount as `base`. What cannot be removed stays in it, for the checker to find.
pub(super) struct Trash<'a> {
    base: &'a OwnedFd,
    dir: Option<OwnedFd>,
    next: u64,
}

impl<'a> Trash<'a> {
    pub(super) fn new(base: &'a OwnedFd) -> Self {
        Self {
            base,
            dir: None,
            next: 0,
        }
    }

    /// Takes a name away, if it can be. A file goes at once, a directory waits for [`Trash::empty`]. True if the name
    /// is free now.
    pub(super) fn take(&mut self, parent: &OwnedFd, name: impl Arg + Copy) -> bool {
        match unlinkat(parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {}
            outcome => return outcome.is_ok(),
        }
        match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY) => self.keep(parent, name),
            outcome => outcome.is_ok(),
        }
    }

    fn keep(&mut self, parent: &OwnedFd, name: impl Arg + Copy) -> bool {
        let Ok(()) = self.open() else { return false };
        let Some(dir) = &self.dir else { return false };
        loop {
            self.next += 1;
            match renameat_with(parent, name, dir, format!("{}", self.next), RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => {}
                outcome => return outcome.is_ok(),
            }
        }
    }

    fn open(&mut self) -> rustix::io::Result<()> {
        if self.dir.is_some() {
            return Ok(());
        }
        match mkdirat(self.base, TRASH, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        let dir = openat2(self.base, TRASH, OPEN_DIR, Mode::empty(), HERE)?;
        if fstat(&dir)?.st_uid != 0 {
            return Err(Errno::PERM);
        }
        self.dir = Some(dir);
        Ok(())
    }

    /// Removes what was taken, now or by a predecessor that was killed.
    pub(super) fn empty(mut self) -> rustix::io::Result<()> {
        match statat(self.base, TRASH, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error),
            Ok(_) => self.open()?,
        }
        // As long as something goes away there may be more to do; then what is left cannot be removed.
        while self.pass()? {}
        match unlinkat(self.base, TRASH, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn pass(&mut self) -> rustix::io::Result<bool> {
        let dir = openat2(self.base, TRASH, OPEN_DIR, Mode::empty(), HERE)?;
        let mut progress = false;
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            progress |= !is_dots(entry.file_name()) && self.flatten(&dir, entry.file_name());
        }
        Ok(progress)
    }

    /// Empties one entry of the trash into the trash, then removes it. True if anything went.
    fn flatten(&mut self, dir: &OwnedFd, name: &CStr) -> bool {
        if unlinkat(dir, name, AtFlags::empty()).is_ok() {
            return true;
        }
        let mut progress = false;
        if let Ok(inner) = openat2(dir, name, OPEN_DIR, Mode::empty(), HERE)
            && let Ok(entries) = Dir::read_from(&inner)
        {
            for entry in entries.flatten().filter(|entry| !is_dots(entry.file_name())) {
                progress |= self.take(&inner, entry.file_name());
            }
        }
        unlinkat(dir, name, AtFlags::REMOVEDIR).is_ok() || progress
    }
}

pub(super) fn is_dots(name: &CStr) -> bool {
    name == c"." || name == c".."
}
