//! What the program can be told: flags, each with its twin in the environment. Nothing else in it reads either.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use executor::{Clock, Errands, Limits, Options};
use host::Host;
use host::real::Settings;

/// The root half of a gpuaas node: runs the signed tasks that are compiled into it, and nothing else.
#[derive(Parser)]
#[command(name = "gpuaas-node-executor", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Serve the agent until stopped.
    Run(Run),
    /// Pin the root of trust of an enrolment token, make this node's keys, hand the rest to the agent.
    Enroll(Enroll),
    /// Print everything this build can be asked to do.
    Types,
    /// Print the version.
    Version,
    /// Fetch a connected socket and hand it on to ssh, which started this.
    #[command(hide = true)]
    HandOver {
        /// Where it is fetched.
        counter: PathBuf,
    },
    /// Try what the sandbox forbids, here and in a child.
    #[command(hide = true)]
    SandboxCheck {
        /// Try only, without a sandbox of its own.
        #[arg(long)]
        inside: bool,
    },
}

#[derive(Args)]
pub(crate) struct Place {
    /// Local policy: the pinned root and the allowed task types.
    #[arg(long, env = "GPUAAS_NODE_CONFIG", default_value = "/etc/gpuaas/node.toml")]
    config: PathBuf,
    /// Journal, keys and trust.
    #[arg(long, env = "GPUAAS_EXECUTOR_STATE_DIR", default_value = "/var/lib/gpuaas/executor")]
    state_dir: PathBuf,
    /// Where the agent connects.
    #[arg(long, env = "GPUAAS_EXECUTOR_SOCKET", default_value = "/run/gpuaas/executor.sock")]
    socket: PathBuf,
}

#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    place: Place,
    /// The group that may connect, by name or number; a name that does not exist leaves the socket to root.
    #[arg(long, env = "GPUAAS_AGENT_GROUP", default_value = "gpuaas")]
    agent_group: String,
    /// How large a new journal is made.
    #[arg(long, env = "GPUAAS_EXECUTOR_JOURNAL_BYTES", default_value_t = Limits::default().journal_bytes)]
    journal_bytes: u64,
    /// With less room on the disk nothing new is taken.
    #[arg(long, env = "GPUAAS_EXECUTOR_MIN_FREE_BYTES", default_value_t = Limits::default().min_free_bytes)]
    min_free_bytes: u64,
}

#[derive(Args)]
pub(crate) struct Enroll {
    /// The token, or - to read it from standard input, where no process list shows it.
    pub(crate) token: String,
    #[command(flatten)]
    place: Place,
    /// The agent's state directory; its owner gets the rest of the token.
    #[arg(long, env = "GPUAAS_AGENT_STATE_DIR", default_value = "/var/lib/gpuaas/agent")]
    pub(crate) agent_state_dir: PathBuf,
}

impl Place {
    fn options(self) -> Options {
        let mut settings = Settings::default();
        // Whoever runs us from elsewhere means this program, not an installed one.
        settings.helper = std::env::current_exe().unwrap_or(settings.helper);
        let errands = Arc::<Errands>::default();
        settings.dial = errands.clone();
        let host = Host::real_with(Path::new("/"), settings);
        Options {
            errands,
            ..Options::new(self.state_dir, self.socket, self.config, host)
        }
    }
}

impl Run {
    pub(crate) fn options(self) -> anyhow::Result<Options> {
        let agent_group = group(&self.agent_group)?;
        let limits = Limits {
            journal_bytes: self.journal_bytes,
            min_free_bytes: self.min_free_bytes,
        };
        Ok(Options {
            agent_group,
            limits,
            clock: Clock::real(),
            ..self.place.options()
        })
    }
}

impl Enroll {
    pub(crate) fn split(self) -> (String, Options, PathBuf) {
        (self.token, self.place.options(), self.agent_state_dir)
    }
}

/// From the file, not by way of name services: those may want a network.
fn group(name: &str) -> anyhow::Result<Option<u32>> {
    if let Ok(number) = name.parse() {
        return Ok(Some(number));
    }
    let groups = std::fs::read_to_string("/etc/group").context("read /etc/group")?;
    let line = groups
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|rest| rest.split(':').nth(1)?.parse().ok());
    if number.is_none() {
        tracing::warn!(group = name, "no such group: only root can connect");
    }
    Ok(number)
}
