//! A simulated node: the real executor and the real agent, each in a process of its own, above a pretended host. It
//! says that it is simulated from its first word, and everything that shows it says so too.

use std::path::Path;

use host::pretend::Profile;

use crate::children::{Kept, Program};
use crate::half::Odd;

mod dir;

pub use dir::NodeDir;

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
        dir.allow_slices()?;
        executor::enroll(token, &dir.executor_options(profile)?, &dir.agent())
    }

    pub fn stop(&mut self) {
        self.agent.stop();
        self.executor.stop();
    }
}
