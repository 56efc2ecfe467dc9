//! How fast an image comes onto a disk, with everything that makes it trustworthy: its digest known, converted in a cage,
//! synced and looked at; beside a plain `qemu-img convert` of the same image to the same device in the same run. The goal
//! is that of an image that was read ahead, as every stored one is; one that has to be hashed first is held against what
//! hashing on one core and a plain convert take in turn. And how fast a stored image is verified anew, beside what one
//! core can hash from memory. Needs root.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use host::{Image, Images};
use model::digest::{Hasher, Sha256};
use model::task::vm_provision::ImageFormat;

use super::Place;
use super::disk::{LoopDisk, run_program};
use super::sample::Sample;
use super::stand::Scratch;
use crate::figures::{Goal, Report};

const DISK_BYTES: u64 = 1 << 30;
const LARGE_BYTES: u64 = 2 << 30;
const ROUNDS: usize = 9;
const CHUNK: usize = 16 << 20;
const REST: Duration = Duration::from_millis(500);

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    anyhow::ensure!(rustix::process::geteuid().is_root(), "it needs root, for a loop device");
    let scratch = Scratch::make(place, "images")?;
    let taken = tokio::task::spawn_blocking(move || measure(scratch.path()));
    let times = taken.await??;
    // The best of each: the kernel stops whoever writes much, now and then and for longer than all of it takes.
    let mib_per_s = |bytes: u64, sample: &Sample| (bytes >> 20) as f64 * 1000.0 / sample.p(0.0);
    let plain = mib_per_s(DISK_BYTES, &times.plain);
    report.put("plain qemu-img convert, synced", plain, "MiB/s", None, Goal::None);
    report.put(
        "digest known: cage, convert, sync, compare",
        mib_per_s(DISK_BYTES, &times.known),
        "MiB/s",
        Some(plain),
        Goal::RatioAtLeast(0.9),
    );
    report.put(
        "read ahead, its first write: cage, convert, sync, compare",
        mib_per_s(DISK_BYTES, &times.ahead),
        "MiB/s",
        Some(plain),
        Goal::RatioAtLeast(0.9),
    );
    let anew = mib_per_s(DISK_BYTES, &times.anew);
    report.put(
        "digest anew: hash, cage, convert, sync, compare",
        anew,
        "MiB/s",
        Some(plain),
        Goal::None,
    );
    let core = mib_per_s(LARGE_BYTES, &times.from_memory);
    // Nothing is written before the digest is known, and no core hashes faster than this.
    let disk_mib = (DISK_BYTES >> 20) as f64;
    let in_turn = disk_mib / (times.stored_mib / core + disk_mib / plain);
    report.put(
        "digest anew, against a core's hash and then a plain convert",
        anew,
        "MiB/s",
        Some(in_turn),
        Goal::RatioAtLeast(0.8),
    );
    report.put("SHA-256 of one core, from memory", core, "MiB/s", None, Goal::None);
    report.put(
        "2 GiB image verified anew",
        mib_per_s(LARGE_BYTES, &times.verified),
        "MiB/s",
        Some(core),
        Goal::RatioAtLeast(0.8),
    );
    Ok(())
}

#[derive(Default)]
struct Times {
    /// The image as it is stored and hashed; converted, it fills the disk.
    stored_mib: f64,
    plain: Sample,
    known: Sample,
    ahead: Sample,
    anew: Sample,
    from_memory: Sample,
    verified: Sample,
}

fn measure(dir: &Path) -> anyhow::Result<Times> {
    let disk = LoopDisk::new(dir, DISK_BYTES)?;
    let times = rounds(dir, &disk);
    disk.detach(dir)?;
    times
}

fn rounds(dir: &Path, disk: &LoopDisk) -> anyhow::Result<Times> {
    let mut times = Times::default();
    let image = small_image(dir, disk)?;
    let file = dir.join("small.qcow2").display().to_string();
    times.stored_mib = std::fs::metadata(&file)?.len() as f64 / f64::from(1 << 20);
    let device = disk.device.display().to_string();
    let opened = disk.host.disks.open_guarded(&disk.identity)?;
    let started = || host::real::Images::under(&disk.root, Vec::new());
    let steady = started();
    let until = Instant::now() + Duration::from_secs(60);
    while !steady.is_known(&image)? {
        anyhow::ensure!(
            Instant::now() < until,
            "its digest is never known; which file system is this?"
        );
        steady.verify(&image)?;
    }
    steady.write(&image, &*opened)?;
    for _ in 0..ROUNDS {
        forget(&device)?;
        let began = Instant::now();
        run_program(
            dir,
            "qemu-img",
            &["convert", "-n", "-f", "qcow2", "-O", "raw", &file, &device],
        )?;
        File::options().write(true).open(&device)?.sync_all()?;
        times.plain.put(began.elapsed());
        forget(&device)?;
        let began = Instant::now();
        steady.write(&image, &*opened)?;
        times.known.put(began.elapsed());
        let fresh = started();
        forget(&device)?;
        let began = Instant::now();
        fresh.write(&image, &*opened)?;
        times.anew.put(began.elapsed());
        let ahead = started();
        let wrong = ahead.read_ahead(std::slice::from_ref(&image), &|| false)?;
        anyhow::ensure!(wrong.is_empty(), "{wrong:?}");
        anyhow::ensure!(ahead.is_known(&image)?, "it was read ahead and is not known");
        forget(&device)?;
        let began = Instant::now();
        ahead.write(&image, &*opened)?;
        times.ahead.put(began.elapsed());
    }
    let (image, chunk) = large_image(dir, disk)?;
    for _ in 0..ROUNDS {
        times.from_memory.put(from_memory(&chunk));
        let fresh = started();
        let began = Instant::now();
        fresh.verify(&image)?;
        times.verified.put(began.elapsed());
    }
    Ok(times)
}

/// Everybody begins with a device of which nothing is in memory, as one is that was just wiped, and on a machine that is
/// done with whatever came before.
fn forget(device: &str) -> anyhow::Result<()> {
    rustix::fs::sync();
    std::thread::park_timeout(REST);
    let device = File::open(device)?;
    device.sync_all()?;
    rustix::fs::fadvise(&device, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// What `openssl speed` does.
fn from_memory(chunk: &[u8]) -> Duration {
    let began = Instant::now();
    for _ in 0..LARGE_BYTES / CHUNK as u64 {
        std::hint::black_box(digest(&SHA256, std::hint::black_box(chunk)));
    }
    began.elapsed()
}

/// Half of it is data that nothing makes smaller, as in an image that somebody uses.
fn small_image(dir: &Path, disk: &LoopDisk) -> anyhow::Result<Image> {
    let (raw, qcow2) = (dir.join("small.raw"), dir.join("small.qcow2"));
    let mut file = File::create(&raw)?;
    let mut hasher = Hasher::default();
    for n in 0..DISK_BYTES / 2 / CHUNK as u64 {
        file.write_all(&noise(n))?;
    }
    file.set_len(DISK_BYTES)?;
    let [from, to] = [&raw, &qcow2].map(|path| path.display().to_string());
    run_program(dir, "qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &from, &to])?;
    std::fs::remove_file(raw)?;
    let bytes = std::fs::read(&qcow2)?;
    hasher.add(&bytes);
    stored(disk, &qcow2, hasher.done(), ImageFormat::Qcow2)
}

fn large_image(dir: &Path, disk: &LoopDisk) -> anyhow::Result<(Image, Vec<u8>)> {
    let (path, chunk) = (dir.join("large.raw"), noise(0));
    let (mut file, mut hasher) = (File::create(&path)?, Hasher::default());
    for _ in 0..LARGE_BYTES / CHUNK as u64 {
        file.write_all(&chunk)?;
        hasher.add(&chunk);
    }
    let image = stored(disk, &path, hasher.done(), ImageFormat::Raw)?;
    std::fs::remove_file(path)?;
    Ok((image, chunk))
}

fn stored(disk: &LoopDisk, path: &Path, sha256: Sha256, format: ImageFormat) -> anyhow::Result<Image> {
    let file = File::open(path)?;
    let image = Image {
        name: "bench.img".parse()?,
        sha256,
        size_bytes: file.metadata()?.len(),
        format,
        trusted: false,
        listed: true,
    };
    disk.host.images.adopt(&image, file)?;
    Ok(image)
}

fn noise(seed: u64) -> Vec<u8> {
    use rand::{Rng, SeedableRng};
    let mut bytes = vec![0; CHUNK];
    rand::rngs::StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}
