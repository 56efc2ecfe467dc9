//! A directory of one test's own, gone when the test is.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "gpuaas-agent-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a place of our own");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    /// An agent that has ended may still be looking at its disk, with a file that it removes again.
    fn drop(&mut self) {
        let patience = Instant::now() + Duration::from_secs(10);
        while let Err(error) = std::fs::remove_dir_all(&self.0) {
            if error.kind() == ErrorKind::DirectoryNotEmpty && Instant::now() < patience {
                std::thread::yield_now();
                continue;
            }
            assert!(std::thread::panicking(), "{}: {error}", self.0.display());
            break;
        }
    }
}
