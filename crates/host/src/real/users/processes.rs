//! The processes of a uid, found in /proc and killed through pidfds, so that a reused pid is never hit. A process
//! counts if any of its four uids is the tenant's; a zombie does not run and does not count.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::Users;
use crate::error::Doing;
use crate::{Error, Result};

const LIMIT: Duration = Duration::from_secs(30);

impl Users {
    pub(super) fn find_processes(&self, uid: u32) -> Result<Vec<u32>> {
        let path = self.path("proc");
        let listing = || format!("list {}", path.display());
        let mut found = Vec::new();
        for entry in fs::read_dir(&path).doing(listing)? {
            let name = entry.doing(listing)?.file_name();
            if let Some(pid) = name.to_str().and_then(|name| name.parse().ok())
                && self.runs_as(pid, uid)
            {
                found.push(pid);
            }
        }
        Ok(found)
    }

    /// Kills, waits for the dead, and looks again until nobody is there: a process that forks faster than we look is
    /// met again in the next round. Gives up after 30 s.
    pub(super) fn kill_processes(&self, uid: u32) -> Result<u32> {
        let until = Instant::now() + LIMIT;
        let mut killed = 0;
        loop {
            let mut dying = Vec::new();
            for pid in self.find_processes(uid)? {
                dying.extend(self.kill(pid, uid)?);
            }
            if dying.is_empty() && self.find_processes(uid)?.is_empty() {
                return Ok(killed);
            }
            killed += u32::try_from(dying.len()).unwrap_or(u32::MAX);
            for pidfd in dying {
                wait(&pidfd, until)?;
            }
            if Instant::now() > until {
                return Err(Error::Timeout {
                    what: "killing processes",
                    limit_s: LIMIT.as_secs(),
                });
            }
        }
    }

    fn kill(&self, pid: u32, uid: u32) -> Result<Option<OwnedFd>> {
        let killing = || format!("kill process {pid}");
        let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        let pidfd = match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error).doing(killing),
        };
        // The descriptor holds the pid: who it is now, it stays.
        if !self.runs_as(pid, uid) {
            return Ok(None);
        }
        match pidfd_send_signal(&pidfd, Signal::KILL) {
            Ok(()) => Ok(Some(pidfd)),
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error).doing(killing),
        }
    }

    fn runs_as(&self, pid: u32, uid: u32) -> bool {
        let Ok(status) = fs::read_to_string(self.path(format!("proc/{pid}/status"))) else {
            return false;
        };
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap_or_default()
        };
        let is_zombie = field("State:").trim_start().starts_with(['Z', 'X']);
        !is_zombie && field("Uid:").split_whitespace().any(|id| id.parse() == Ok(uid))
    }
}

/// Until it is dead or `until` has passed; the caller looks again in either case.
fn wait(pidfd: &OwnedFd, until: Instant) -> Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error).doing(|| "wait for a killed process".to_owned()),
    }
}
