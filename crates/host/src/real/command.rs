//! The one place where the host's programs are started: a closed list of programs by absolute path, arguments as an
//! array, no shell, an empty environment, a deadline after which the whole process group is killed, and bounded output.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::operations::Group;
use crate::error::Doing;
use crate::{Error, Result};

const CHROOT: &str = "/usr/sbin/chroot";
/// Who has nothing.
pub(super) const NOBODY: u32 = 65_534;
const KEPT_STDERR_BYTES: usize = 4096;
const LAST_WAIT: Duration = Duration::from_secs(2);
/// A definition of a VM with sixteen slots is a tenth of it.
const KEPT_STDOUT_BYTES: usize = 1 << 20;

/// Everything we ever start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    Useradd,
    Usermod,
    Userdel,
    Groupadd,
    Groupdel,
    Ipcrm,
    /// Says which rules translate addresses.
    Nft,
    /// Tells a controller what to do.
    Nvme,
    /// Writes its input to one of the kernel's files: a driver that hangs then hangs a process of its own.
    Dd,
    Ip,
    OvsVsctl,
    OvsOfctl,
    QemuImg,
    Ssh,
    Virsh,
}

impl Program {
    const fn path(self) -> &'static str {
        match self {
            Program::Useradd => "/usr/sbin/useradd",
            Program::Usermod => "/usr/sbin/usermod",
            Program::Userdel => "/usr/sbin/userdel",
            Program::Groupadd => "/usr/sbin/groupadd",
            Program::Groupdel => "/usr/sbin/groupdel",
            Program::Nft => "/usr/sbin/nft",
            Program::Nvme => "/usr/sbin/nvme",
            Program::Ipcrm => "/usr/bin/ipcrm",
            Program::Dd => "/usr/bin/dd",
            Program::Ip => "/usr/sbin/ip",
            Program::OvsVsctl => "/usr/bin/ovs-vsctl",
            Program::OvsOfctl => "/usr/bin/ovs-ofctl",
            Program::QemuImg => "/usr/bin/qemu-img",
            Program::Ssh => "/usr/bin/ssh",
            Program::Virsh => "/usr/bin/virsh",
        }
    }

    pub(super) fn is_installed(self) -> bool {
        std::path::Path::new(self.path()).exists()
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
    stdout: Vec<u8>,
}

/// What a program reads, where it writes, and as whom it runs.
#[derive(Default)]
pub(super) struct With {
    /// None: nothing to read.
    pub(super) input: Option<File>,
    pub(super) output: Output,
    /// It talks to somebody who may be hostile: it gets no privileges.
    pub(super) as_nobody: bool,
}

#[derive(Default)]
pub(super) enum Output {
    #[default]
    Dropped,
    /// Up to a limit; more is an error.
    Kept,
}

impl Ended {
    pub(super) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(super) fn stderr(&self) -> &str {
        &self.stderr
    }

    /// What it said, if it ended well and said it all.
    pub(super) fn said(self) -> Result<String> {
        self.said_or(0)
    }

    /// The same of a program that ends well in this way, too.
    pub(super) fn said_or(self, code: i32) -> Result<String> {
        let (program, cut) = (self.program.name(), self.stdout.len() > KEPT_STDOUT_BYTES);
        let stdout = String::from_utf8(self.stdout.clone());
        if self.code() != Some(code) {
            self.ok()?;
        }
        match stdout {
            Ok(text) if !cut => Ok(text),
            Ok(_) | Err(_) => Err(Error::Unreadable {
                path: program.to_owned(),
                why: "it says too much, or no text",
            }),
        }
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
        let held = held.map(File::try_clone).transpose();
        let input = held.doing(|| format!("start {}", program.name()))?;
        let output = Output::Dropped;
        let as_nobody = false;
        self.run_with(
            program,
            args,
            With {
                input,
                output,
                as_nobody,
            },
            limit,
        )
    }

    /// What the program says, if it ends well.
    pub(super) fn ask(&self, program: Program, args: &[&str], limit: Duration) -> Result<String> {
        let with = With {
            output: Output::Kept,
            ..With::default()
        };
        self.run_with(program, args, with, limit)?.said()
    }

    pub(super) fn run_with(&self, program: Program, args: &[&str], with: With, limit: Duration) -> Result<Ended> {
        let starting = || format!("start {}", program.name());
        let stdin = with.input.map_or_else(Stdio::null, Stdio::from);
        let stdout = match with.output {
            Output::Dropped => Stdio::null(),
            Output::Kept => Stdio::piped(),
        };
        let mut command = self.command(program);
        command.args(args).current_dir("/").env_clear().process_group(0);
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
        command.stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        if with.as_nobody && rustix::process::geteuid().is_root() {
            command.gid(NOBODY).uid(NOBODY);
        }
        let mut running = Running::start(command).doing(starting)?;
        let said = running
            .watch(Instant::now() + limit)
            .doing(|| format!("wait for {}", program.name()))?;
        let Some(Said { stdout, stderr }) = said else {
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
            stdout,
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

/// Killed and reaped when we lose interest, with everything it has started: its process group, and whatever else is
/// there of the operation that it was started for, which does one thing at a time.
struct Running {
    child: Child,
    group: Option<Group>,
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
    fn start(mut command: Command) -> std::io::Result<Self> {
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
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        self.kill_all();
        let status = self.child.wait()?;
        self.reaped = true;
        Ok(status)
    }

    /// What it wrote until it ended; None if it did not end in time.
    fn watch(&mut self, until: Instant) -> std::io::Result<Option<Said>> {
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

struct Said {
    stdout: Vec<u8>,
    stderr: String,
}

/// What a program writes, as much of it as is kept.
struct Pipe {
    open: Option<OwnedFd>,
    kept: Vec<u8>,
    limit: usize,
}

impl Pipe {
    fn new(open: Option<OwnedFd>, limit: usize) -> Self {
        let kept = Vec::new();
        Self { open, kept, limit }
    }

    fn read_some(&mut self) -> std::io::Result<()> {
        let mut chunk = [0; 4096];
        let Some(open) = &self.open else { return Ok(()) };
        let read = rustix::io::read(open, &mut chunk)?;
        let room = self.limit.saturating_sub(self.kept.len()).min(read);
        self.kept.extend_from_slice(&chunk[..room]);
        if read == 0 {
            self.open = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::{AllocationId, derive_op};

    use crate::Operations as _;
    use crate::real::Operations as Real;

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
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut running = Running::start(command).expect("starts");
        let left = said_pid(&mut running);
        assert!(running.end().expect("reaped").success(), "its own status");
        assert!(dies(&left));
    }

    const LIMIT: Duration = Duration::from_secs(20);

    /// The process whose number it says.
    fn said_pid(running: &mut Running) -> OwnedFd {
        let said = running.watch(Instant::now() + LIMIT).expect("watched").expect("ended");
        let left = said.stderr.parse().ok().and_then(Pid::from_raw).expect("a pid");
        pidfd_open(left, PidfdFlags::empty()).expect("it runs")
    }

    fn dies(pidfd: &OwnedFd) -> bool {
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        poll(&mut fds, Timespec::try_from(LIMIT).ok().as_ref()).expect("poll") == 1
    }

    /// None where there is no place for one, which is said.
    fn operations() -> Option<Real> {
        let operations = Real::of_this_process();
        if let Some(why) = operations.hindrance() {
            println!("not run: {why}");
            return None;
        }
        Some(operations)
    }

    #[test]
    fn what_leaves_its_process_group_does_not_leave_the_operation() {
        let Some(operations) = operations() else { return };
        let op = derive_op(AllocationId::new(), "a test", 1);
        let entered = operations.enter(op).expect("entered");
        let mut command = program_at("/bin/sh");
        // It waits until it is where it belongs, and then until its child has a session of its own.
        let script = "read go; setsid sleep 1000 >&- 2>&- & until read -r pid name state parent group session rest \
            </proc/$!/stat && [ $session = $! ]; do :; done; echo $! >&2";
        command.args(["-c", script]).process_group(0);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::start(command).expect("starts");
        drop(running.child.stdin.take());
        let left = said_pid(&mut running);
        assert!(running.end().expect("reaped").success());
        assert!(dies(&left));
        drop(entered);
        assert!(Group::current().is_none());
    }

    #[test]
    fn what_a_killed_executor_left_dies_before_its_task_goes_on() {
        let Some(operations) = operations() else { return };
        let op = derive_op(AllocationId::new(), "a test", 1);
        let entered = operations.enter(op).expect("entered");
        let mut command = program_at("/bin/sleep");
        command.arg("1000").process_group(0);
        let mut running = Running::start(command).expect("starts");
        let left = pidfd_open(Pid::from_child(&running.child), PidfdFlags::empty()).expect("it runs");
        // As after a kill -9: nobody ends it.
        running.reaped = true;
        std::mem::forget(entered);
        let again = operations.enter(op).expect("entered again");
        assert!(dies(&left));
        running.child.wait().expect("reaped");
        drop(again);
    }

    #[test]
    fn what_ends_in_one_place_of_an_operation_goes_on_in_another() {
        let Some(operations) = operations() else { return };
        let op = derive_op(AllocationId::new(), "a test", 1);
        let entered = operations.enter(op).expect("entered");
        let place = |number| operations.place(number).expect("a place");
        let started = |program: &'static str| {
            let mut command = program_at(program);
            command.arg("1000").process_group(0).stdout(Stdio::null());
            Running::start(command).expect("starts")
        };
        let (long, short) = (place(0), place(1));
        std::thread::scope(|scope| {
            let outer = scope.spawn(|| {
                let _entered = long.enter();
                let mut sleeps = started("/bin/sleep");
                let ends = scope.spawn(|| {
                    let _entered = short.enter();
                    assert!(started("/bin/echo").end().is_ok());
                });
                ends.join().expect("it ended");
                assert!(sleeps.child.try_wait().expect("a child").is_none(), "it goes on");
                pidfd_open(Pid::from_child(&sleeps.child), PidfdFlags::empty()).expect("it runs")
            });
            assert!(dies(&outer.join().expect("no panic")), "with its place");
        });
        let dir = Group::current().expect("ours").dir().to_owned();
        drop(entered);
        assert!(!dir.exists(), "the places are gone, and the operation");
    }

    #[test]
    fn a_program_past_its_deadline_is_killed() {
        let commands = Commands::under("/".into());
        let ended = commands.run(Program::Ipcrm, &["--help"], None, Duration::ZERO);
        assert!(matches!(ended, Err(Error::ProgramTimeout { program: "ipcrm", .. })));
    }
}
