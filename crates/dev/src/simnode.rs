//! A simulated node: the real executor and the real agent, each in a process of its own, above a pretended host. It
//! says that it is simulated from its first word, and everything that shows it says so too.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::Options as AgentOptions;
use executor::Options as ExecutorOptions;
use host::pretend::{Pretend, Profile};

use crate::children::{Kept, Program};
use crate::half::Odd;

/// Where a simulated node keeps its things.
#[derive(Clone, Debug)]
pub struct NodeDir(PathBuf);

impl NodeDir {
    pub fn new(dir: impl Into<PathBuf>) -> std::io::Result<Self> {
        let this = Self(dir.into());
        for dir in [this.executor(), this.agent(), this.host(), this.log()] {
            std::fs::create_dir_all(dir)?;
        }
        Ok(this)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn executor(&self) -> PathBuf {
        self.0.join("executor")
    }

    pub fn agent(&self) -> PathBuf {
        self.0.join("agent")
    }

    /// What the pretended machine remembers.
    pub fn host(&self) -> PathBuf {
        self.0.join("host")
    }

    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    pub fn socket(&self) -> PathBuf {
        self.0.join("x.sock")
    }

    pub fn executor_options(&self, profile: Profile) -> anyhow::Result<ExecutorOptions> {
        let host = Pretend::in_directory(profile, &self.host())?.host();
        Ok(ExecutorOptions::new(
            self.executor(),
            self.socket(),
            self.0.join("node.toml"),
            host,
        ))
    }

    /// Its waits are short: the control plane is on this machine and is not hurt by being asked often.
    pub fn agent_options(&self) -> AgentOptions {
        let mut options = AgentOptions::new(self.agent(), self.socket());
        options.pace.retry = (Duration::from_millis(100), Duration::from_secs(2));
        options.pace.handoff = Duration::from_millis(200);
        options.pace.slow = Duration::from_secs(2);
        options.pace.superseded = Duration::from_secs(2);
        options.pace.recheck = Duration::from_secs(1);
        options.pace.renewal_spacing = Duration::from_millis(200);
        options
    }
}

/// Both processes of a node, kept alive.
pub struct SimNode {
    pub name: String,
    pub dir: NodeDir,
    pub executor: Kept,
    pub agent: Kept,
}

impl SimNode {
    /// Starts the processes of a node that is, or will be, enrolled.
    pub fn start(exe: &Path, name: &str, dir: NodeDir, profile: Profile) -> Self {
        Self::odd(exe, name, dir, profile, Odd::default())
    }

    /// Slow, or with a bug, to see whether anybody notices.
    pub fn odd(exe: &Path, name: &str, dir: NodeDir, profile: Profile, odd: Odd) -> Self {
        let odd = odd.args();
        let mut executor = vec!["--profile", profile.as_str()];
        executor.extend(odd.iter().map(String::as_str));
        let program = |what: &str, extra: &[&str]| Program {
            exe: exe.to_owned(),
            args: [what, "--dir", &dir.path().display().to_string()]
                .iter()
                .chain(extra)
                .map(ToString::to_string)
                .collect(),
            log: dir.log().join(format!("{what}.log")),
        };
        Self {
            name: name.to_owned(),
            executor: Kept::start(program("executor", &executor)),
            agent: Kept::start(program("agent", &[])),
            dir,
        }
    }

    /// What `gpuaas-node-executor enroll TOKEN` does on a real host.
    pub fn enrol(dir: &NodeDir, profile: Profile, token: &str) -> anyhow::Result<()> {
        executor::enroll(token, &dir.executor_options(profile)?, &dir.agent())
    }

    pub fn stop(&mut self) {
        self.agent.stop();
        self.executor.stop();
    }
}
