//! The file system that the agent's state lives on: how full it is, and whether it still takes a write. Measured by
//! writing, because a disk that reports room may refuse it all the same.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use model::node_api::Disk;

const PROBE_BYTES: usize = 4096;

/// None if even asking fails. Blocks.
pub(crate) fn look(state_dir: &Path) -> Option<Disk> {
    let stat = rustix::fs::statvfs(state_dir).ok()?;
    let (all, free, available) = (stat.f_blocks, stat.f_bfree, stat.f_bavail);
    let used = all.saturating_sub(free);
    // As df counts: what is reserved for root is not available to us.
    let used_percent = (used * 100).checked_div(used + available).unwrap_or(0);
    Some(Disk {
        path: state_dir.display().to_string(),
        used_percent: u32::try_from(used_percent).unwrap_or(100),
        free_bytes: available.saturating_mul(stat.f_frsize),
        writable: write(&state_dir.join("diag")).is_ok(),
    })
}

fn write(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let file = path.join("write");
    let mut probe = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&file)?;
    let written = probe.write_all(&[0x5a; PROBE_BYTES]).and_then(|()| probe.sync_all());
    fs::remove_file(&file)?;
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writable_directory_says_so_and_a_missing_one_says_nothing() {
        let dir = std::env::temp_dir().join(format!("gpuaas-agent-disk-{}", std::process::id()));
        assert_eq!(look(&dir), None);
        fs::create_dir(&dir).expect("made");
        let disk = look(&dir).expect("seen");
        assert!(
            disk.writable && disk.free_bytes > 0 && disk.used_percent <= 100,
            "{disk:?}"
        );
        // A file where the diagnostic directory should be: nothing can be written there.
        fs::remove_dir(dir.join("diag")).expect("empty again");
        fs::write(dir.join("diag"), b"").expect("in the way");
        assert!(!look(&dir).expect("seen").writable);
        fs::remove_dir_all(&dir).expect("removed");
    }
}
