//! Images on their way: one file each, named by the digest that it should have, as long as what has come of it so far.
//! Left alone for a day it is nobody's any more.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::digest::Sha256;

const LEFT_OVER: Duration = Duration::from_secs(86_400);
/// What has to stay free: the node writes its own records on this disk.
const RESERVE: u64 = 256 << 20;

pub(super) struct Staging {
    dir: PathBuf,
}

impl Staging {
    pub(super) fn below(state_dir: &Path) -> Self {
        let dir = state_dir.join("images");
        Self { dir }
    }

    /// What there is of it, or an empty file; and how long that is.
    pub(super) fn open(&self, sha256: &Sha256) -> io::Result<(File, u64)> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(self.path(sha256))?;
        let length = file.metadata()?.len();
        Ok((file, length))
    }

    /// Is there room for this much more?
    pub(super) fn has_room(&self, bytes: u64) -> io::Result<bool> {
        let stat = rustix::fs::statvfs(&self.dir)?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        Ok(free >= bytes.saturating_add(RESERVE))
    }

    pub(super) fn drop_one(&self, sha256: &Sha256) {
        match fs::remove_file(self.path(sha256)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%sha256, %error, "a fetched image stays behind"),
        }
    }

    /// Removes what nobody has asked for in a day.
    pub(super) fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let modified = entry.metadata().and_then(|seen| seen.modified());
            let old = modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LEFT_OVER));
            if old && let Err(error) = fs::remove_file(entry.path()) {
                tracing::warn!(%error, "an old image stays behind");
            }
        }
    }

    fn path(&self, sha256: &Sha256) -> PathBuf {
        self.dir.join(sha256.to_string())
    }
}
