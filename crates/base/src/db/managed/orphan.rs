//! A PostgreSQL left over from a run of ours that was killed: usually already on its way out, because it was told to
//! die with us. We hold the lock, so whatever runs on this data has no owner any more; it is stopped before ours starts.

use std::fs;

use super::ManagedError;
use super::account::Runner;
use super::find::Programs;
use super::place::Place;

pub(super) fn stop(place: &Place, programs: &Programs, runner: &Runner) -> Result<(), ManagedError> {
    let Some(pid) = running(place) else { return Ok(()) };
    tracing::warn!(pid, "stopping a PostgreSQL left over from an earlier run");
    let mut pg_ctl = runner.command(programs, "pg_ctl");
    pg_ctl
        .args(["stop", "-m", "fast", "-w", "-t", "60", "-D"])
        .arg(&place.data);
    let stopped = runner.run(&mut pg_ctl, "pg_ctl");
    match (running(place), stopped) {
        // It may have ended between the look and the call, which pg_ctl reports as a failure.
        (None, _) => Ok(()),
        (Some(pid), _) => Err(ManagedError::OrphanStuck { pid }),
    }
}

/// The process named in `postmaster.pid`, if it lives and works in our data directory. A stale file whose number now
/// belongs to somebody else names nobody.
fn running(place: &Place) -> Option<i32> {
    let text = fs::read_to_string(place.data.join("postmaster.pid")).ok()?;
    let pid: i32 = text.lines().next()?.trim().parse().ok()?;
    let cwd = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    (pid > 1 && cwd == place.data).then_some(pid)
}
