//! The directory of a simulated node: where its two halves and its pretended host keep their things, and how the halves
//! are started on them.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::Options as AgentOptions;
use executor::Options as ExecutorOptions;
use host::pretend::{Pretend, Profile};

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
            self.policy(),
            host,
        ))
    }

    /// What the owner of a real host writes into its local policy before it has slices.
    pub fn allow_slices(&self) -> std::io::Result<()> {
        let text = "slice_cidr = \"10.77.0.0/16\"\novs_bridges = [\"br-slices\"]\n";
        match std::fs::File::create_new(self.policy()) {
            Ok(mut file) => file.write_all(text.as_bytes()),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn policy(&self) -> PathBuf {
        self.0.join("node.toml")
    }

    /// From its next start on the agent reaches the control plane by this address.
    pub fn dial_by(&self, address: SocketAddr) -> std::io::Result<()> {
        std::fs::write(self.dial(), address.to_string())
    }

    fn dial(&self) -> PathBuf {
        self.0.join("dial")
    }

    /// Its waits are short: the control plane is on this machine and is not hurt by being asked often.
    pub fn agent_options(&self) -> AgentOptions {
        let mut options = AgentOptions::new(self.agent(), self.socket());
        options.overrides.api_resolve = std::fs::read_to_string(self.dial()).ok();
        options.pace.retry = (Duration::from_millis(100), Duration::from_secs(2));
        options.pace.spread = Duration::from_millis(300);
        options.pace.handoff = Duration::from_millis(200);
        options.pace.slow = Duration::from_secs(2);
        options.pace.superseded = Duration::from_secs(2);
        options.pace.recheck = Duration::from_secs(1);
        options.pace.renewal_spacing = Duration::from_millis(200);
        options
    }
}
