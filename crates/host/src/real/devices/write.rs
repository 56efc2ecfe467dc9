//! One write to a file of the kernel's, in a process of its own and under a deadline: drivers are known to hang in
//! one for ever, and whoever hangs must not be us, nor keep our files.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};

use super::super::command::{Commands, Program};
use super::Devices;
use crate::devices::write_timeout;
use crate::error::Doing;
use crate::{Error, Result};

/// How long the kernel may take over an attribute.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// A driver that comes or goes may reset the device and wait for it.
const BIND_LIMIT: Duration = Duration::from_secs(60);
/// The kernel itself waits up to a minute for a device that comes back from its reset.
const RESET_LIMIT: Duration = Duration::from_secs(90);

/// Who writes. The kernel's files answer at once; files of a generated tree need somebody who plays the kernel.
pub trait KernelWriter: Send + Sync {
    /// None if the kernel took it, else its words. `host_write_timeout` if it says nothing in time.
    fn write(&self, path: &Path, text: &str, limit: Duration) -> Result<Option<String>>;
}

/// In a process of its own.
pub struct InAProcess;

impl KernelWriter for InAProcess {
    fn write(&self, path: &Path, text: &str, limit: Duration) -> Result<Option<String>> {
        let writing = || format!("write {}", path.display());
        if !path.exists() {
            // Nobody makes a file where the kernel has none.
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound)).doing(writing);
        }
        let input = input(text).doing(writing)?;
        let (to, commands) = (format!("of={}", path.display()), Commands::under("/".into()));
        let args = [to.as_str(), "conv=notrunc", "status=none"];
        match commands.run(Program::Dd, &args, Some(&input), limit) {
            Ok(ended) if ended.code() == Some(0) => Ok(None),
            Ok(ended) => Ok(Some(ended.stderr().to_owned())),
            Err(Error::ProgramTimeout { .. }) => Err(write_timeout(&path.display().to_string(), limit)),
            Err(error) => Err(error),
        }
    }
}

impl Devices {
    pub(super) fn write(&self, path: &str, text: &str) -> Result<()> {
        match self.written(path, text)? {
            None => Ok(()),
            Some(words) => Err(std::io::Error::other(words)).doing(|| format!("write {} to {path}", text.trim_end())),
        }
    }

    pub(super) fn written(&self, path: &str, text: &str) -> Result<Option<String>> {
        self.writer.write(&self.sys.path(path), text, limit(path))
    }
}

fn limit(path: &str) -> Duration {
    match path.rsplit('/').next() {
        Some("reset") => RESET_LIMIT,
        Some("bind" | "unbind" | "drivers_probe") => BIND_LIMIT,
        _ => WRITE_LIMIT,
    }
}

fn input(text: &str) -> std::io::Result<File> {
    let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}
