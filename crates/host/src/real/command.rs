//! The one place where the host's programs are started: a closed list of programs by absolute path, arguments as an
//! array, no shell, an empty environment, a deadline after which the whole process group is killed, and bounded output.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::error::Doing;
use crate::{Error, Result};

const CHROOT: &str = "/usr/sbin/chroot";
const KEPT_STDERR_BYTES: usize = 4096;
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Everything we ever start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    Useradd,
    Usermod,
    Userdel,
    Groupadd,
    Groupdel,
    Ipcrm,
    /// Writes its input to one of the kernel's files: a driver that hangs then hangs a process of its own.
    Dd,
}

impl Program {
    const fn path(self) -> &'static str {
        match self {
            Program::Useradd => "/usr/sbin/useradd",
            Program::Usermod => "/usr/sbin/usermod",
            Program::Userdel => "/usr/sbin/userdel",
            Program::Groupadd => "/usr/sbin/groupadd",
            Program::Groupdel => "/usr/sbin/groupdel",
            Program::Ipcrm => "/usr/bin/ipcrm",
            Program::Dd => "/usr/bin/dd",
        }
    }

    pub(super) fn name(self) -> &'static str {
        let path = self.path();
        path.rsplit('/').next().unwrap_or(path)
    }
}

pub(super) struct Commands {
    root: PathBuf,
}

pub(super) struct Ended {
    program: Program,
    status: ExitStatus,
    stderr: String,
}

impl Ended {
    pub(super) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(super) fn stderr(&self) -> &str {
        &self.stderr
    }

    pub(super) fn ok(self) -> Result<()> {
        if self.status.success() {
            return Ok(());
        }
        let status = self.status.to_string();
        Err(Error::Program {
            program: self.program.name(),
            status,
            stderr: self.stderr,
        })
    }
}

impl Commands {
    pub(super) fn under(root: PathBuf) -> Self {
        Self { root }
    }

    /// `held` becomes the program's standard input, empty or not: a lock on that file lasts as long as the program, even if
    /// we are killed before it ends.
    pub(super) fn run(&self, program: Program, args: &[&str], held: Option<&File>, limit: Duration) -> Result<Ended> {
        let starting = || format!("start {}", program.name());
        let stdin = match held {
            Some(file) => Stdio::from(file.try_clone().doing(starting)?),
            None => Stdio::null(),
        };
        let mut command = self.command(program);
        command.args(args).current_dir("/").env_clear().process_group(0);
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
        command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = Running::new(command.spawn().doing(starting)?);
        let stderr = running
            .watch(Instant::now() + limit)
            .doing(|| format!("wait for {}", program.name()))?;
        let Some(stderr) = stderr else {
            return Err(Error::ProgramTimeout {
                program: program.name(),
                limit_ms: limit.as_millis(),
            });
        };
        let status = running.end().doing(|| format!("wait for {}", program.name()))?;
        Ok(Ended {
            program,
            status,
            stderr,
        })
    }

    fn command(&self, program: Program) -> Command {
        if self.root.as_os_str() == "/" {
            return program_at(program.path());
        }
        let mut command = program_at(CHROOT);
        command.arg(&self.root).arg(program.path());
        command
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that starts the host's programs, from a closed list"
)]
fn program_at(path: &'static str) -> Command {
    Command::new(path)
}

/// Killed and reaped when we lose interest, with everything it has started.
struct Running {
    child: Child,
    reaped: bool,
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
    fn new(child: Child) -> Self {
        Self { child, reaped: false }
    }

    /// Kills it and waits a little: a program in a system call that never returns does not die either, and must not
    /// keep us with it. Such a one is left behind, as the kernel leaves it.
    fn abandon(&mut self) -> std::io::Result<()> {
        kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
        let pidfd = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?;
        let limit = Timespec::try_from(LAST_WAIT).ok();
        if poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], limit.as_ref())? > 0 {
            self.child.wait()?;
        }
        Ok(())
    }

    /// Ends what is left of its process group, before it is reaped: until then the group's number is nobody else's.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
        let status = self.child.wait()?;
        self.reaped = true;
        Ok(status)
    }

    /// What it wrote to stderr until it ended; None if it did not end in time.
    fn watch(&mut self, until: Instant) -> std::io::Result<Option<String>> {
        let pidfd = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?;
        let mut stderr = self.child.stderr.take();
        let mut kept = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let mut fds = vec![PollFd::new(&pidfd, PollFlags::IN)];
            fds.extend(stderr.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ended = !fds[0].revents().is_empty();
            let readable = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
            drop(fds);
            if readable {
                read_some(&mut stderr, &mut kept)?;
            } else if ended {
                // The pipe may stay open in a grandchild; what the program itself wrote has been read.
                return Ok(Some(String::from_utf8_lossy(&kept).trim().escape_debug().to_string()));
            }
        }
    }
}

fn read_some(pipe: &mut Option<ChildStderr>, kept: &mut Vec<u8>) -> std::io::Result<()> {
    let mut chunk = [0; 1024];
    let Some(open) = pipe else { return Ok(()) };
    let read = open.read(&mut chunk)?;
    let room = KEPT_STDERR_BYTES.saturating_sub(kept.len()).min(read);
    kept.extend_from_slice(&chunk[..room]);
    if read == 0 {
        *pipe = None;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_says_why() {
        let commands = Commands::under("/".into());
        let args = ["--no-such-option"];
        let ended = commands
            .run(Program::Ipcrm, &args, None, Duration::from_secs(20))
            .expect("it starts");
        let error = ended.ok().expect_err("it fails").to_string();
        assert!(error.contains("ipcrm") && error.contains("no-such-option"), "{error}");
    }

    /// A program that ends well may still have left somebody behind.
    #[test]
    fn what_a_program_leaves_running_is_killed() {
        let mut command = program_at("/bin/sh");
        command
            .args(["-c", "sleep 1000 >&- 2>&- & echo $! >&2"])
            .process_group(0);
        let child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut running = Running::new(child);
        let limit = Duration::from_secs(20);
        let said = running.watch(Instant::now() + limit).expect("watched").expect("ended");
        let left = said.parse().ok().and_then(Pid::from_raw).expect("a pid");
        let pidfd = pidfd_open(left, PidfdFlags::empty()).expect("it runs");
        assert!(running.end().expect("reaped").success(), "its own status");
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        let dead = poll(&mut fds, Timespec::try_from(limit).ok().as_ref()).expect("poll");
        assert_eq!(dead, 1, "it is dead");
    }

    #[test]
    fn a_program_past_its_deadline_is_killed() {
        let commands = Commands::under("/".into());
        let ended = commands.run(Program::Ipcrm, &["--help"], None, Duration::ZERO);
        assert!(matches!(ended, Err(Error::ProgramTimeout { program: "ipcrm", .. })));
    }
}
