//! The processes of a uid, found in /proc and killed through pidfds, so that a reused pid is never hit. A process
//! counts as long as one of its threads is alive and has the uid in any of its four places, whatever became of the
//! first thread. What cannot be read is an error and never an absence: only "no such process" means gone.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{CapabilitySet, capabilities};

use super::Users;
use super::deadline::Deadline;
use crate::error::Doing;
use crate::{Error, Result};

impl Users {
    pub(super) fn find_processes(&self, uid: u32) -> Result<Vec<u32>> {
        self.refuse_blinkers()?;
        let path = self.path("proc");
        let listing = || format!("list {}", path.display());
        let (mut found, mut seen_ourselves) = (Vec::new(), false);
        for entry in fs::read_dir(&path).doing(listing)? {
            let name = entry.doing(listing)?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A thread of ours may have the uid for a moment; it is not the tenant's.
            if pid == std::process::id() {
                seen_ourselves = true;
            } else if self.runs_as(pid, uid)? {
                found.push(pid);
            }
        }
        if seen_ourselves {
            return Ok(found);
        }
        Err(self.blind("our own process is not in it, so it does not show all"))
    }

    /// Kills all at once, then one by one what that did not reach, and looks again until nobody is there. Gives how
    /// many were seen and killed; a fork bomb has more.
    pub(super) fn kill_processes(&self, uid: u32, deadline: Deadline) -> Result<u32> {
        let mut killed = std::collections::BTreeSet::from_iter(self.find_processes(uid)?);
        loop {
            self.sweep(uid)?;
            let mut dying = Vec::new();
            for pid in self.find_processes(uid)? {
                if let Some(pidfd) = self.kill(pid, uid)? {
                    killed.insert(pid);
                    dying.push(pidfd);
                }
            }
            if dying.is_empty() && self.find_processes(uid)?.is_empty() {
                return Ok(u32::try_from(killed.len()).unwrap_or(u32::MAX));
            }
            for pidfd in dying {
                wait(&pidfd, deadline)?;
            }
            deadline.check()?;
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
        if !self.runs_as(pid, uid)? {
            return Ok(None);
        }
        match pidfd_send_signal(&pidfd, Signal::KILL) {
            Ok(()) => Ok(Some(pidfd)),
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error).doing(killing),
        }
    }

    /// Whether a thread of it is alive and has the uid.
    fn runs_as(&self, pid: u32, uid: u32) -> Result<bool> {
        let tasks = self.path(format!("proc/{pid}/task"));
        let listing = || format!("list {}", tasks.display());
        let Some(entries) = unless_gone(fs::read_dir(&tasks)).doing(listing)? else {
            return Ok(false);
        };
        for entry in entries {
            let Some(entry) = unless_gone(entry).doing(listing)? else {
                continue;
            };
            if thread_runs_as(&entry.path().join("status"), uid)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// With `hidepid`, who may not trace a process does not see it, and would call it absent.
    fn refuse_blinkers(&self) -> Result<()> {
        let at = self.path("proc");
        let mounts = self.mounts()?;
        let hides = mounts.iter().rfind(|mount| mount.at == at).is_some_and(|mount| {
            let values = mount.options().filter_map(|option| option.strip_prefix("hidepid="));
            values.into_iter().any(|value| !matches!(value, "0" | "off"))
        });
        if !hides {
            return Ok(());
        }
        let ours = capabilities(None).doing(|| "ask for our own capabilities".to_owned())?;
        if ours.effective.contains(CapabilitySet::SYS_PTRACE) {
            Ok(())
        } else {
            Err(self.blind("it is mounted with hidepid, and we may not look behind it"))
        }
    }

    fn blind(&self, why: &'static str) -> Error {
        Error::Unreadable {
            path: self.path("proc").display().to_string(),
            why,
        }
    }
}

fn thread_runs_as(status: &Path, uid: u32) -> Result<bool> {
    let reading = || format!("read {}", status.display());
    // Names of programs need not be text.
    let Some(bytes) = unless_gone(fs::read(status)).doing(reading)? else {
        return Ok(false);
    };
    let text = String::from_utf8_lossy(&bytes);
    let unreadable = || Error::Unreadable {
        path: status.display().to_string(),
        why: "it does not say state and uids",
    };
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.map(str::trim).filter(|value| !value.is_empty())
    };
    let state = field("State:").ok_or_else(unreadable)?;
    let ids = field("Uid:").ok_or_else(unreadable)?.split_whitespace();
    let ids: Vec<u32> = ids.map_while(|id| id.parse().ok()).collect();
    if ids.len() != 4 {
        return Err(unreadable());
    }
    Ok(!state.starts_with(['Z', 'X']) && ids.contains(&uid))
}

/// None if it is the process that is gone; every other error stays one.
fn unless_gone<T>(read: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Until it is dead or the time is over; the caller looks again in either case.
fn wait(pidfd: &OwnedFd, deadline: Deadline) -> Result<()> {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    match poll(&mut fds, Timespec::try_from(deadline.left()).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error).doing(|| "wait for a killed process".to_owned()),
    }
}
