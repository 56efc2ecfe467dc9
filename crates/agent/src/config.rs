//! The command line, its environment twins and the `[agent]` table of node.toml, read once. A flag beats the
//! environment, which beats the file, which beats the default; the other keys of the file are the executor's.

use std::io;
use std::path::{Path, PathBuf};

use agent::Options;
use agent::api::Overrides;
use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use serde::Deserialize;

const STATE_DIR: &str = "/var/lib/gpuaas/agent";
const EXECUTOR_SOCKET: &str = "/run/gpuaas/executor.sock";

#[derive(Debug, Parser)]
#[command(
    name = "gpuaas-node-agent",
    version,
    about = "The network half of a gpuaas node. It needs no privileges."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Enrol, poll, report and renew until stopped.
    Run(Places),
    /// Look at this node's own hops once and print what is seen.
    Probe {
        #[command(flatten)]
        places: Places,
        /// As one JSON document, `gpuaas.node_probe.v1`.
        #[arg(long)]
        json: bool,
    },
    /// Print the version and the node protocol.
    Version,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Places {
    /// Local configuration; a missing file is an empty one.
    #[arg(long, env = "GPUAAS_NODE_CONFIG", default_value = "/etc/gpuaas/node.toml")]
    config: PathBuf,
    /// Where identity and diagnostics are kept.
    #[arg(long, env = "GPUAAS_AGENT_STATE_DIR")]
    state_dir: Option<PathBuf>,
    #[arg(long, env = "GPUAAS_EXECUTOR_SOCKET")]
    executor_socket: Option<PathBuf>,
    /// Where to call instead of what enrolment said.
    #[arg(long, env = "GPUAAS_API_URL")]
    api_url: Option<String>,
    /// The address to dial for it, as IP or IP:PORT; the name that is checked stays the URL's.
    #[arg(long, env = "GPUAAS_API_RESOLVE")]
    api_resolve: Option<String>,
    /// Which log lines to write, e.g. `info` or `agent=debug`.
    #[arg(long, env = "GPUAAS_LOG", default_value = "info")]
    pub(crate) log: String,
}

#[derive(Debug, Default, Deserialize)]
struct NodeToml {
    #[serde(default)]
    agent: AgentTable,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentTable {
    state_dir: Option<PathBuf>,
    executor_socket: Option<PathBuf>,
    api_url: Option<String>,
    api_resolve: Option<String>,
    /// PEM; for hosts of images that no public authority vouches for.
    image_ca_file: Option<PathBuf>,
}

impl Places {
    pub(crate) fn options(self) -> anyhow::Result<Options> {
        let table = read(&self.config)?.agent;
        let state_dir = self.state_dir.or(table.state_dir).unwrap_or_else(|| STATE_DIR.into());
        let socket = self
            .executor_socket
            .or(table.executor_socket)
            .unwrap_or_else(|| EXECUTOR_SOCKET.into());
        let mut options = Options::new(state_dir, socket);
        options.image_ca_file = table.image_ca_file;
        options.overrides = Overrides {
            api_url: self.api_url.or(table.api_url),
            api_resolve: self.api_resolve.or(table.api_resolve),
        };
        Ok(options)
    }
}

fn read(path: &Path) -> anyhow::Result<NodeToml> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(NodeToml::default()),
        Err(error) => Err(error).with_context(|| format!("{}", path.display())),
        Ok(text) => toml::from_str(&text).with_context(|| format!("{}", path.display())),
    }
}
