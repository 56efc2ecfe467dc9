//! A disk for benches: a loop device over a file of the scratch disk, which a real host takes for an NVMe disk. Needs
//! root. And programs whose time is taken.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use host::Host;
use host::pretend::tree::disguise;
use model::value::DiskIdentity;

use crate::children::{Program, spawn};

pub(super) struct LoopDisk {
    pub(super) device: PathBuf,
    pub(super) identity: DiskIdentity,
    /// It has this disk and no other.
    pub(super) host: Host,
    pub(super) root: PathBuf,
}

impl LoopDisk {
    pub(super) fn new(dir: &Path, size_bytes: u64) -> anyhow::Result<Self> {
        let file = dir.join("disk.img");
        // Every block is there before anything is measured: what is taken is the time of overwriting.
        let (to, count) = (format!("of={}", file.display()), format!("count={}", size_bytes >> 23));
        run_program(dir, "dd", &["if=/dev/zero", &to, "bs=8M", &count, "conv=fsync"])?;
        run_program(dir, "losetup", &["--find", "--show", &file.display().to_string()])?;
        let device = PathBuf::from(std::fs::read_to_string(dir.join("losetup.log"))?.trim());
        let identity = DiskIdentity {
            by_id: "nvme-BENCH_1".parse()?,
            serial: "BENCH1".parse()?,
            wwn: "eui.bench1".parse()?,
            size_bytes,
        };
        let root = dir.join("machine");
        std::fs::create_dir_all(&root)?;
        disguise(&root, &device, &identity)?;
        let host = Host::real_under(&root);
        Ok(Self {
            device,
            identity,
            host,
            root,
        })
    }

    pub(super) fn detach(&self, dir: &Path) -> anyhow::Result<()> {
        run_program(dir, "losetup", &["--detach", &self.device.display().to_string()]).map(drop)
    }
}

/// How long it took; what it said is in a file of its name.
pub(super) fn run_program(dir: &Path, name: &str, args: &[&str]) -> anyhow::Result<Duration> {
    let log = dir.join(format!("{name}.log"));
    if log.exists() {
        std::fs::remove_file(&log)?;
    }
    let exe = ["/usr/bin", "/usr/sbin"].map(|place| Path::new(place).join(name));
    let exe = exe
        .into_iter()
        .find(|exe| exe.exists())
        .with_context(|| format!("{name} is not installed"))?;
    let began = Instant::now();
    let args = args.iter().map(ToString::to_string).collect();
    let status = spawn(&Program {
        exe,
        args,
        log: log.clone(),
    })?
    .wait()?;
    anyhow::ensure!(
        status.success(),
        "{name}: {}",
        std::fs::read_to_string(log).unwrap_or_default()
    );
    Ok(began.elapsed())
}
