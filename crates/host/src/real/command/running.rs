//! A program that runs: what it writes is read as it comes, and it ends with all that it has started.

use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::pipe::{Pipe, Said};
use super::{KEPT_STDERR_BYTES, KEPT_STDOUT_BYTES};
use crate::real::operations::Group;

const LAST_WAIT: Duration = Duration::from_secs(2);

/// Killed and reaped when we lose interest, with everything it has started: its process group, and whatever else is
/// there of the operation that it was started for, which does one thing at a time.
pub(super) struct Running {
    pub(super) child: Child,
    group: Option<Group>,
    pub(super) reaped: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            // Whatever fails here, there is nobody left to tell.
            self.abandon().ok();
        }
    }
}

impl Running {
    pub(super) fn start(mut command: Command) -> std::io::Result<Self> {
        let running = Self {
            child: command.spawn()?,
            group: Group::current(),
            reaped: false,
        };
        running
            .group
            .as_ref()
            .map_or(Ok(()), |group| group.add(running.child.id()))?;
        Ok(running)
    }

    fn kill_all(&self) {
        kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
        if let Some(group) = &self.group {
            // It says what is left when the operation ends.
            group.kill().ok();
        }
    }

    /// Kills it and waits a little: a program in a system call that never returns does not die either, and must not
    /// keep us with it. Such a one is left behind, as the kernel leaves it.
    fn abandon(&mut self) -> std::io::Result<()> {
        self.kill_all();
        let pidfd = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?;
        let limit = Timespec::try_from(LAST_WAIT).ok();
        if poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], limit.as_ref())? > 0 {
            self.child.wait()?;
        }
        Ok(())
    }

    /// Ends what is left of its process group, before it is reaped: until then the group's number is nobody else's.
    pub(super) fn end(&mut self) -> std::io::Result<ExitStatus> {
        self.kill_all();
        let status = self.child.wait()?;
        self.reaped = true;
        Ok(status)
    }

    /// What it wrote until it ended; None if it did not end in time.
    pub(super) fn watch(&mut self, until: Instant) -> std::io::Result<Option<Said>> {
        let pidfd = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?;
        let out = self.child.stdout.take().map(OwnedFd::from);
        let err = self.child.stderr.take().map(OwnedFd::from);
        let mut pipes = [Pipe::new(out, KEPT_STDOUT_BYTES + 1), Pipe::new(err, KEPT_STDERR_BYTES)];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let mut fds = vec![PollFd::new(&pidfd, PollFlags::IN)];
            let open = pipes.iter().filter_map(|pipe| pipe.open.as_ref());
            fds.extend(open.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ended = !fds[0].revents().is_empty();
            let mut readable = fds[1..]
                .iter()
                .map(|fd| !fd.revents().is_empty())
                .collect::<Vec<_>>()
                .into_iter();
            drop(fds);
            let mut read = false;
            for pipe in pipes.iter_mut().filter(|pipe| pipe.open.is_some()) {
                if readable.next() == Some(true) {
                    pipe.read_some()?;
                    read = true;
                }
            }
            if ended && !read {
                // The pipes may stay open in a grandchild; what the program itself wrote has been read.
                let [out, err] = pipes;
                let stderr = String::from_utf8_lossy(&err.kept).trim().escape_debug().to_string();
                return Ok(Some(Said {
                    stdout: out.kept,
                    stderr,
                }));
            }
        }
    }
}
