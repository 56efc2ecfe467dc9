//! Files that are there whole or not at all, whoever is killed when: written without a name, synced, then named; or
//! written beside their place and moved into it. Names are names, never paths, and are looked up below one open
//! directory that nobody can swap.

use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags, fsync, linkat, openat, openat2, renameat, unlinkat};
use rustix::io::Errno;

use crate::Result;
use crate::error::Doing;

/// A directory of root's alone.
pub(super) struct Folder {
    path: PathBuf,
    fd: OwnedFd,
}

impl Folder {
    /// Makes it, and whatever is missing above it, if need be.
    pub(super) fn ensure(path: &Path) -> Result<Self> {
        Self::ensure_with(path, 0o700)
    }

    pub(super) fn ensure_with(path: &Path, mode: u32) -> Result<Self> {
        let making = || format!("make {}", path.display());
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).doing(making)?;
        }
        match DirBuilder::new().mode(mode).create(path) {
            Ok(()) => {
                std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).doing(making)?;
                if let Some(parent) = path.parent() {
                    File::open(parent).and_then(|dir| dir.sync_all()).doing(making)?;
                }
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).doing(making),
        }
        Self::open(path)?.ok_or(Errno::NOENT).doing(making)
    }

    /// None if there is no such directory. A symbolic link is none.
    pub(super) fn open(path: &Path) -> Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(CWD, path, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(Self {
                path: path.to_owned(),
                fd,
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error).doing(|| format!("open {}", path.display())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A file without a name, which vanishes with its last descriptor.
    pub(super) fn nameless(&self, mode: u32) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let fd = openat(&self.fd, ".", flags, Mode::from_raw_mode(mode));
        fd.map(File::from)
            .doing(|| format!("make a file in {}", self.path.display()))
    }

    /// Gives a nameless file its name. False: the name is taken, and what is there stays.
    pub(super) fn name(&self, file: &File, name: &str) -> Result<bool> {
        let doing = || format!("name {}", self.path.join(name).display());
        file.sync_all().doing(doing)?;
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        match linkat(CWD, own, &self.fd, name, AtFlags::SYMLINK_FOLLOW) {
            Ok(()) => self.sync().map(|()| true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error).doing(doing),
        }
    }

    /// A new file with these bytes. False: the name is taken, and what is there stays.
    pub(super) fn write_new(&self, name: &str, bytes: &[u8], mode: u32) -> Result<bool> {
        let mut file = self.nameless(mode)?;
        file.write_all(bytes)
            .doing(|| format!("write {}", self.path.join(name).display()))?;
        self.name(&file, name)
    }

    /// Exactly these bytes, whatever was there. A reader sees the old file or the new one. The name in between begins
    /// with a dot, which those who watch a directory for files leave alone.
    pub(super) fn write(&self, name: &str, bytes: &[u8], mode: u32) -> Result<()> {
        let beside = format!(".new-{name}");
        self.remove(&beside)?;
        self.write_new(&beside, bytes, mode)?;
        renameat(&self.fd, &beside, &self.fd, name).doing(|| format!("write {}", self.path.join(name).display()))?;
        self.sync()
    }

    /// The file below this directory, by no link of any kind; None if it is not there.
    pub(super) fn file(&self, name: &str) -> Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let within =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        match openat2(&self.fd, name, flags, Mode::empty(), within) {
            Ok(fd) => Ok(Some(File::from(fd))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error).doing(|| format!("open {}", self.path.join(name).display())),
        }
    }

    /// Its text; None if it is not there. What is longer than a small file is cut.
    pub(super) fn read(&self, name: &str) -> Result<Option<String>> {
        let Some(file) = self.file(name)? else { return Ok(None) };
        let mut text = String::new();
        file.take(1 << 20)
            .read_to_string(&mut text)
            .doing(|| format!("read {}", self.path.join(name).display()))?;
        Ok(Some(text))
    }

    pub(super) fn remove(&self, name: &str) -> Result<()> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => self.sync(),
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error).doing(|| format!("remove {}", self.path.join(name).display())),
        }
    }

    /// The names in it, sorted.
    pub(super) fn names(&self) -> Result<Vec<String>> {
        let doing = || format!("list {}", self.path.display());
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).doing(doing)? {
            let name = entry.doing(doing)?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    pub(super) fn sync(&self) -> Result<()> {
        fsync(self.fd.as_fd()).doing(|| format!("sync {}", self.path.display()))
    }
}
