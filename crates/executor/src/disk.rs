//! The disk that our state lies on: how much room there is, and whether it can be written at all, which is tried and not
//! deduced.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::node_api::Disk;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use uuid::Uuid;

/// The file system that holds our state.
pub(crate) fn look(state_dir: &Path) -> Option<Disk> {
    let stat = rustix::fs::statvfs(state_dir).ok()?;
    let used = stat.f_blocks.saturating_sub(stat.f_bfree);
    // As df and the agent count: what is reserved for root is neither used nor available.
    let of = used.saturating_add(stat.f_bavail);
    let used_percent = used.saturating_mul(100).checked_div(of).unwrap_or(0);
    Some(Disk {
        path: state_dir.display().to_string(),
        used_percent: u32::try_from(used_percent).unwrap_or(100),
        free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        writable: writable(state_dir),
    })
}

/// Asked with every offer, hence without trying to write.
pub(crate) fn free_bytes(state_dir: &Path) -> u64 {
    rustix::fs::statvfs(state_dir).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// How long an answer about the disk counts: whoever asks often shall not wear it out.
const WRITABLE_FOR: Duration = Duration::from_secs(1);

/// Tried, not deduced: written and synced. The lock is held meanwhile, so that two who ask do not meet.
pub(crate) fn writable(state_dir: &Path) -> bool {
    static LAST: Mutex<Option<(PathBuf, Instant, bool)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((dir, at, answer)) = &*last
        && dir == state_dir
        && at.elapsed() < WRITABLE_FOR
    {
        return *answer;
    }
    let answer = try_to_write(state_dir).is_ok();
    *last = Some((state_dir.to_owned(), Instant::now(), answer));
    answer
}

/// Into a file without a name, which leaves nothing behind if we die here.
fn try_to_write(state_dir: &Path) -> io::Result<()> {
    let nameless = rustix::fs::open(
        state_dir,
        OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    );
    match nameless {
        Ok(file) => written(File::from(file)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            let path = state_dir.join(format!("writable-{}", Uuid::now_v7().simple()));
            let tried = File::create_new(&path).and_then(written);
            fs::remove_file(&path)?;
            tried
        }
        Err(error) => Err(error.into()),
    }
}

fn written(mut file: File) -> io::Result<()> {
    file.write_all(b"yes\n")?;
    file.sync_all()
}
