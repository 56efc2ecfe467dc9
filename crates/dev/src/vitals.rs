//! What the kernel says of a process: how much memory is its own and how much processor time it took.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rustix::process::Pid;

/// Linux tells processor time in hundredths of a second on every machine that this runs on.
const TICK: Duration = Duration::from_millis(10);

/// Resident memory in KiB.
pub fn resident_kib(pid: Pid) -> anyhow::Result<f64> {
    let text = read(pid, "status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("the process has no memory any more")?.parse()?)
}

/// Processor time of all its threads so far, in user and kernel mode.
pub fn cpu(pid: Pid) -> anyhow::Result<Duration> {
    let text = read(pid, "stat")?;
    // The name in brackets may hold anything; what follows the last bracket is numbers.
    let (_, numbers) = text.rsplit_once(')').context("the process is gone")?;
    let mut ticks = numbers.split_whitespace().skip(11).take(2);
    let mut next = || -> anyhow::Result<u32> { Ok(ticks.next().context("no times")?.parse()?) };
    Ok(TICK * (next()? + next()?))
}

fn read(pid: Pid, what: &str) -> anyhow::Result<String> {
    let path = PathBuf::from(format!("/proc/{}/{what}", pid.as_raw_nonzero()));
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// Processes whose parent this is.
pub fn children(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().get().to_string();
    let is_child = |pid: &Pid| {
        let text = read(*pid, "stat").unwrap_or_default();
        let of = text
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1));
        of == Some(parent.as_str())
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    pids.filter(is_child).collect()
}

/// Processor time of a bench's own PostgreSQL. One of its processes that ended while we looked is counted no more.
pub fn postgres_cpu(scratch: &Path) -> anyhow::Result<Duration> {
    let text = std::fs::read_to_string(scratch.join("pg/data/postmaster.pid"))?;
    let pid = text.lines().next().and_then(|line| line.parse().ok());
    let postmaster = pid.and_then(Pid::from_raw).context("no postmaster")?;
    let all = children(postmaster).into_iter().chain([postmaster]);
    Ok(all.filter_map(|pid| cpu(pid).ok()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_seen_to_grow_and_to_work() {
        let me = rustix::process::getpid();
        let (before, worked) = (resident_kib(me).expect("there"), cpu(me).expect("there"));
        let held: Vec<u8> = (0..64 << 20).map(|n: u32| n.to_le_bytes()[0]).collect();
        assert!(resident_kib(me).expect("there") > before + 60_000.0);
        let mut sum = 0u64;
        while cpu(me).expect("there") < worked + 3 * TICK {
            sum = held
                .iter()
                .fold(sum, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte));
        }
        assert!(children(me).is_empty() || sum > 0);
    }
}
