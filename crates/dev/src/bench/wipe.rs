//! How fast a disk is given back: markers planted, everything overwritten, everything read back, on a loop device over
//! a file of the scratch disk; beside what `dd` takes to zero and to read the same device in the same run. Needs root.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use host::Markers;
use model::proof::WipeMethod;
use model::value::Nonce;

use super::Place;
use super::disk::{LoopDisk, run_program};
use super::sample::Sample;
use crate::figures::{Goal, Report};

const SIZE_BYTES: u64 = 1 << 30;
const ROUNDS: usize = 5;

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    anyhow::ensure!(rustix::process::geteuid().is_root(), "it needs root, for a loop device");
    let dir = place.scratch.join(format!("gpuaas-wipe-{}", std::process::id()));
    let taken = tokio::task::spawn_blocking(move || {
        std::fs::create_dir_all(&dir)?;
        let measured = measure(&dir);
        std::fs::remove_dir_all(&dir)?;
        measured
    });
    let Times {
        ours,
        dd,
        read_back,
        dd_read,
    } = taken.await??;
    let mib_per_s = |sample: &Sample| (SIZE_BYTES >> 20) as f64 * 1000.0 / sample.p(50.0);
    report.put("dd of zeros, direct", mib_per_s(&dd), "MiB/s", None, Goal::None);
    let (name, limit) = ("1026 markers, overwritten", Some(mib_per_s(&dd)));
    report.put(name, mib_per_s(&ours), "MiB/s", limit, Goal::RatioAtLeast(0.9));
    report.put("dd to nowhere, direct", mib_per_s(&dd_read), "MiB/s", None, Goal::None);
    report.put(
        "read back and judged",
        mib_per_s(&read_back),
        "MiB/s",
        Some(mib_per_s(&dd_read)),
        Goal::None,
    );
    Ok(())
}

#[derive(Default)]
struct Times {
    ours: Sample,
    dd: Sample,
    read_back: Sample,
    dd_read: Sample,
}

fn measure(dir: &Path) -> anyhow::Result<Times> {
    let disk = LoopDisk::new(dir, SIZE_BYTES)?;
    let times = rounds(dir, &disk);
    disk.detach(dir)?;
    times
}

fn rounds(dir: &Path, disk: &LoopDisk) -> anyhow::Result<Times> {
    let device = disk.device.display();
    let disk = disk.host.disks.open_guarded(&disk.identity)?;
    let markers = Markers::new(Nonce::from_bytes([5; 32]), SIZE_BYTES).context("room for markers")?;
    let (from, to) = (format!("if={device}"), format!("of={device}"));
    let mut times = Times::default();
    for _ in 0..ROUNDS {
        let args = [
            "if=/dev/zero",
            &to,
            "bs=8M",
            "count=128",
            "oflag=direct",
            "conv=fsync,notrunc",
        ];
        times.dd.put(run_program(dir, "dd", &args)?);
        let began = Instant::now();
        disk.plant(&markers)?;
        disk.wipe(WipeMethod::Overwrite)?;
        times.ours.put(began.elapsed());
        let began = Instant::now();
        let sought = disk.seek(&markers, WipeMethod::Overwrite)?;
        times.read_back.put(began.elapsed());
        anyhow::ensure!(sought.markers_found == 0 && sought.blocks_not_zero == 0, "{sought:?}");
        let args = [&from, "of=/dev/null", "bs=8M", "iflag=direct"];
        times.dd_read.put(run_program(dir, "dd", &args)?);
    }
    Ok(times)
}
