//! Where the development platform keeps its state, and how the command line finds it running.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// What `dev.json` says while the platform runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Running {
    pub url: String,
    pub token: String,
    pub pid: u32,
}

/// The state directory, held by one process at a time.
pub struct StateDir {
    path: PathBuf,
    _lock: fs::File,
}

impl StateDir {
    /// None: somebody else holds it.
    pub fn take(path: &Path) -> anyhow::Result<Option<Self>> {
        // Not 0700: the database's own user has to pass through it to its own directory.
        fs::DirBuilder::new().recursive(true).mode(0o711).create(path)?;
        let lock = fs::File::options().create(true).append(true).open(path.join("lock"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self {
                path: path.to_owned(),
                _lock: lock,
            })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells the command line where we are.
    pub fn announce(&self, running: &Running) -> anyhow::Result<()> {
        let beside = self.path.join("dev.json.new");
        if beside.exists() {
            fs::remove_file(&beside)?;
        }
        let mut file = fs::File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)?;
        file.write_all(&serde_json::to_vec_pretty(running)?)?;
        fs::rename(&beside, self.path.join("dev.json"))?;
        Ok(())
    }

    pub fn withdraw(&self) -> anyhow::Result<()> {
        let path = self.path.join("dev.json");
        if path.exists() {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

/// What a running platform has announced.
pub fn running(path: &Path) -> Option<Running> {
    serde_json::from_slice(&fs::read(path.join("dev.json")).ok()?).ok()
}

/// `/var/lib/gpuaas/dev` for root, else under the user's own state directory.
#[expect(
    clippy::disallowed_methods,
    reason = "dev has no config.rs: this is the one place where it reads the environment"
)]
pub fn default_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/gpuaas/dev");
    }
    let base = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || {
        std::env::var_os("HOME")
            .map_or_else(std::env::temp_dir, PathBuf::from)
            .join(".local/state")
    };
    base.unwrap_or_else(home).join("gpuaas/dev")
}
