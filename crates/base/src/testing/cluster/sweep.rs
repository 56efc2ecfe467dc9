//! A test process cannot clean up after its own death, so the next one does: directories whose process is gone and
//! whose lock is free are removed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

const PREFIX: &str = "gpuaas-test-pg-";

pub(super) fn own_dir() -> PathBuf {
    std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()))
}

pub(super) fn remove_dead() {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        if pid.parse::<u32>().is_err() || PathBuf::from(format!("/proc/{pid}")).exists() {
            continue;
        }
        // PostgreSQL was told to die with its process; while it is still at it, leave its files alone.
        if !lives(&entry.path())
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            eprintln!("{}: {error}", entry.path().display());
        }
    }
}

fn lives(dir: &Path) -> bool {
    let locked = |file: File| flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    let pid = fs::read_to_string(dir.join("data/postmaster.pid")).ok();
    let pid = pid
        .as_deref()
        .and_then(|text| text.lines().next())
        .map(|pid| Path::new("/proc").join(pid.trim()));
    File::open(dir.join("lock")).is_ok_and(locked) || pid.is_some_and(|process| process.exists())
}
