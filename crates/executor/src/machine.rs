//! What tells this machine from others, read once: the board's ids, the boot, the name. A pretend host has ids of its
//! own, derived from where its state lies, so that a copy elsewhere is seen to be a copy.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::node_api::{Disk, Facts, Hardware};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use uuid::Uuid;

use crate::Options;

pub(crate) struct Machine {
    pub(crate) boot_id: String,
    pub(crate) hardware: Hardware,
    pub(crate) facts: Facts,
}

impl Machine {
    pub(crate) fn look(options: &Options) -> Self {
        let boot_id = line("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let hostname = line("/proc/sys/kernel/hostname").unwrap_or_default();
        let hardware = if options.host.is_simulated() {
            let place = options.state_dir.as_os_str().as_encoded_bytes();
            let dmi_uuid = Some(Uuid::new_v5(&Uuid::NAMESPACE_OID, place).to_string());
            Hardware {
                dmi_uuid,
                board_serial: None,
                tpm_ek_sha256: None,
            }
        } else {
            let dmi_uuid = line("/sys/class/dmi/id/product_uuid");
            let board_serial = line("/sys/class/dmi/id/board_serial");
            Hardware {
                dmi_uuid,
                board_serial,
                tpm_ek_sha256: None,
            }
        };
        let provider = line("/sys/class/dmi/id/sys_vendor").filter(|_| !options.host.is_simulated());
        let facts = Facts {
            hostname,
            provider,
            private_ip: None,
        };
        Self {
            boot_id,
            hardware,
            facts,
        }
    }
}

/// The file system that holds our state.
pub(crate) fn disk(state_dir: &Path) -> Option<Disk> {
    let stat = rustix::fs::statvfs(state_dir).ok()?;
    let used = stat.f_blocks.saturating_sub(stat.f_bavail);
    let used_percent = used.saturating_mul(100).checked_div(stat.f_blocks).unwrap_or(0);
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

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
