//! Reading the kernel's own files, /proc and /sys, below one root directory. Each is small, may vanish between two
//! looks, and is text unless somebody says otherwise.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::error::Doing;
use crate::{Error, Result};

/// A file that we want to read whole and that is larger is an error: what was cut off may be what matters.
const MAX_BYTES: u64 = 16 << 20;

#[derive(Clone)]
pub(super) struct Sys {
    root: PathBuf,
}

impl Sys {
    pub(super) fn under(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    pub(super) fn text(&self, path: &str) -> Result<String> {
        match self.optional(path)? {
            Some(text) => Ok(text),
            None => Err(std::io::Error::from(ErrorKind::NotFound)).doing(|| self.reading(path)),
        }
    }

    /// None if the kernel has no such file, or the device answers that it has no such thing.
    pub(super) fn optional(&self, path: &str) -> Result<Option<String>> {
        match self.bytes(path, MAX_BYTES)? {
            Some(bytes) if bytes.len() as u64 == MAX_BYTES => Err(self.unreadable(path, "it is too large")),
            Some(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
            None => Ok(None),
        }
    }

    /// An attribute that may be missing or unreadable while devices come and go.
    pub(super) fn attribute(&self, path: &str) -> Option<String> {
        self.text(path).ok()
    }

    /// Up to `most` bytes; None if there is no such file.
    pub(super) fn bytes(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        match File::open(self.path(path)).and_then(|file| file.take(most).read_to_end(&mut bytes)) {
            Ok(_) => Ok(Some(bytes)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error).doing(|| self.reading(path)),
        }
    }

    /// The names in a directory, sorted; none if the kernel does not have it.
    pub(super) fn names(&self, path: &str) -> Result<Vec<String>> {
        let listing = || format!("list {}", self.path(path).display());
        let entries = match fs::read_dir(self.path(path)) {
            Ok(entries) => entries,
            Err(error) if is_gone(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error).doing(listing),
        };
        let mut names = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) => names.push(entry.file_name().to_string_lossy().into_owned()),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error).doing(listing),
            }
        }
        names.sort();
        Ok(names)
    }

    /// Where a link points, as it is written; None if there is none.
    pub(super) fn link(&self, path: &str) -> Result<Option<PathBuf>> {
        match fs::read_link(self.path(path)) {
            Ok(target) => Ok(Some(target)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error).doing(|| self.reading(path)),
        }
    }

    /// The last part of where it points.
    pub(super) fn link_name(&self, path: &str) -> Result<Option<String>> {
        let target = self.link(path)?;
        Ok(target.and_then(|target| Some(target.file_name()?.to_string_lossy().into_owned())))
    }

    pub(super) fn unreadable(&self, path: &str, why: &'static str) -> Error {
        Error::Unreadable {
            path: self.path(path).display().to_string(),
            why,
        }
    }

    fn reading(&self, path: &str) -> String {
        format!("read {}", self.path(path).display())
    }
}

/// Not there, or gone while we looked.
fn is_gone(error: &std::io::Error) -> bool {
    let no_such_device = [
        rustix::io::Errno::NODEV,
        rustix::io::Errno::NXIO,
        rustix::io::Errno::SRCH,
    ];
    error.kind() == ErrorKind::NotFound
        || no_such_device
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
