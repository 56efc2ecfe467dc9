//! Removal of trees that a tenant has built, however deep: every directory is first renamed into one directory of
//! root's at the top, so that nobody can follow and we never hold more than a few descriptors or go down a level. That
//! directory is always a new one under a name nobody can know: one that was found may be somebody's, whatever it is
//! called, and is treated like everything else.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, Mode, RenameFlags, Stat, fstat, mkdirat, openat2, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::rand::{GetRandomFlags, getrandom};

use super::deadline::Deadline;
use super::home::{HERE, OPEN_DIR};
use crate::Result;
use crate::error::Doing;

const PREFIX: &str = ".gpuaas-trash.";
/// Names to try. That one is taken is chance or somebody's work, and neither goes on for long.
const ATTEMPTS: usize = 16;

/// On the same mount as `base`. What cannot be removed stays in it, for the checker to find.
pub(super) struct Trash<'a> {
    base: &'a OwnedFd,
    made: Option<Made>,
    next: u64,
    /// Turned out to be somebody else's and could not be put back.
    spared: BTreeSet<String>,
    deadline: Deadline,
}

struct Made {
    name: String,
    dir: OwnedFd,
    id: (u64, u64),
}

impl<'a> Trash<'a> {
    pub(super) fn new(base: &'a OwnedFd, deadline: Deadline) -> Self {
        Self {
            base,
            made: None,
            next: 0,
            spared: BTreeSet::new(),
            deadline,
        }
    }

    /// Takes a name away if it is `owner`'s, and decides that only when nobody else can reach it. A file goes at once,
    /// a directory waits for [`Trash::empty`]. True if the name is free now.
    pub(super) fn take_from(&mut self, owner: u32, parent: &OwnedFd, name: impl Arg + Copy) -> bool {
        let kept = match self.keep(parent, name) {
            Ok(kept) => kept,
            // No room to rename, or no way: then there is no more than the look that the caller has had.
            Err(Errno::NOSPC | Errno::DQUOT | Errno::XDEV) => return remove(parent, name).is_ok(),
            Err(_) => return false,
        };
        let Some(Made { dir, .. }) = &self.made else {
            return false;
        };
        if statat(dir, &kept, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| stat.st_uid == owner) {
            // A directory that is not empty is removed later; the name is free in any case.
            remove(dir, &kept).ok();
            return true;
        }
        if renameat_with(dir, &kept, parent, name, RenameFlags::NOREPLACE).is_err() {
            self.spared.insert(kept);
        }
        false
    }

    /// The same for what is ours to remove whoever owns it: nobody but root can have put it there.
    pub(super) fn take(&mut self, parent: &OwnedFd, name: impl Arg + Copy) -> bool {
        match remove(parent, name) {
            Err(Errno::NOTEMPTY) => self.keep(parent, name).is_ok(),
            outcome => outcome.is_ok(),
        }
    }

    /// Whether that is the directory we made.
    pub(super) fn is(&self, stat: &Stat) -> bool {
        self.made.as_ref().is_some_and(|made| made.id == id(stat))
    }

    fn keep(&mut self, parent: &OwnedFd, name: impl Arg + Copy) -> rustix::io::Result<String> {
        let made = match self.made.take() {
            Some(made) => made,
            None => make(self.base)?,
        };
        let Made { dir, .. } = self.made.insert(made);
        loop {
            self.next += 1;
            let kept = self.next.to_string();
            match renameat_with(parent, name, &*dir, &kept, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => {}
                outcome => return outcome.map(|()| kept),
            }
        }
    }

    /// Removes what was taken. False if some of it stays.
    pub(super) fn empty(mut self) -> Result<bool> {
        let removing = || "empty our trash".to_owned();
        // As long as something goes away there may be more to do; then what is left cannot be removed.
        while self.made.is_some() && self.pass()? {}
        let emptied = match &self.made {
            None => true,
            Some(made) => match unlinkat(self.base, &made.name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => true,
                Err(Errno::NOTEMPTY | Errno::BUSY) => false,
                Err(error) => return Err(error).doing(removing),
            },
        };
        self.tidy().doing(removing)?;
        Ok(emptied)
    }

    fn pass(&mut self) -> Result<bool> {
        let listing = || "list our trash".to_owned();
        let Some(Made { dir, .. }) = &self.made else {
            return Ok(false);
        };
        let dir = openat2(dir, ".", OPEN_DIR, Mode::empty(), HERE).doing(listing)?;
        let mut progress = false;
        for entry in Dir::read_from(&dir).doing(listing)? {
            let entry = entry.doing(listing)?;
            let name = entry.file_name();
            let is_spared = name.to_str().is_ok_and(|name| self.spared.contains(name));
            progress |= !is_dots(name) && !is_spared && self.flatten(&dir, name)?;
        }
        Ok(progress)
    }

    /// Empties one entry of the trash into the trash, then removes it. True if anything went.
    fn flatten(&mut self, dir: &OwnedFd, name: &CStr) -> Result<bool> {
        self.deadline.check()?;
        if unlinkat(dir, name, AtFlags::empty()).is_ok() {
            return Ok(true);
        }
        let mut progress = false;
        if let Ok(inner) = openat2(dir, name, OPEN_DIR, Mode::empty(), HERE)
            && let Ok(entries) = Dir::read_from(&inner)
        {
            for entry in entries.flatten().filter(|entry| !is_dots(entry.file_name())) {
                self.deadline.check()?;
                progress |= self.take(&inner, entry.file_name());
            }
        }
        Ok(unlinkat(dir, name, AtFlags::REMOVEDIR).is_ok() || progress)
    }

    /// What killed predecessors left of theirs, once it is empty; never anything that is in it.
    fn tidy(&self) -> rustix::io::Result<()> {
        for entry in Dir::read_from(self.base)? {
            let entry = entry?;
            if entry.file_name().to_bytes().starts_with(PREFIX.as_bytes()) {
                unlinkat(self.base, entry.file_name(), AtFlags::REMOVEDIR).ok();
            }
        }
        Ok(())
    }
}

fn make(base: &OwnedFd) -> rustix::io::Result<Made> {
    for _ in 0..ATTEMPTS {
        let mut random = [0; 16];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let name = format!("{PREFIX}{:032x}", u128::from_ne_bytes(random));
        match mkdirat(base, &name, Mode::RWXU) {
            Ok(()) => {}
            Err(Errno::EXIST) => continue,
            Err(error) => return Err(error),
        }
        let dir = openat2(base, &name, OPEN_DIR, Mode::empty(), HERE)?;
        let stat = fstat(&dir)?;
        // Who may write to `base` may have put something else there since; but hardly anything as plain as this.
        let is_plain = stat.st_uid == 0 && stat.st_mode & 0o777 == 0o700;
        if is_plain && is_empty(&dir)? {
            let id = id(&stat);
            return Ok(Made { name, dir, id });
        }
    }
    Err(Errno::EXIST)
}

fn is_empty(dir: &OwnedFd) -> rustix::io::Result<bool> {
    for entry in Dir::read_from(dir)? {
        if !is_dots(entry?.file_name()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn remove(parent: &OwnedFd, name: impl Arg + Copy) -> rustix::io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => unlinkat(parent, name, AtFlags::REMOVEDIR),
        outcome => outcome,
    }
}

fn id(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

pub(super) fn is_dots(name: &CStr) -> bool {
    name == c"." || name == c".."
}
