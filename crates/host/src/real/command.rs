//! The one place where the host's programs are started: a closed list of programs by absolute path, arguments as an
//! array, no shell, an empty environment, a deadline after which the whole process group is killed, and bounded output.

mod pipe;
mod running;

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::error::Doing;
use crate::{Error, Result};
use pipe::Said;
use running::Running;

const CHROOT: &str = "/usr/sbin/chroot";
/// Who has nothing.
pub(super) const NOBODY: u32 = 65_534;
const KEPT_STDERR_BYTES: usize = 4096;
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

#[cfg(test)]
mod tests;
