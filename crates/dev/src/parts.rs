//! What `gpuaas-dev` can be besides itself: parts of the platform in processes of their own, for the runs that kill,
//! count or crowd them. People do not type these.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use base::config::Flags;
use clap::Subcommand;
use host::pretend::Profile;

use crate::half::Odd;
use crate::{crowd, daemon, half, replica, worker};

#[derive(Subcommand)]
pub enum Part {
    /// The control plane alone, taking simulated nodes
    #[command(hide = true)]
    Daemon {
        #[command(flatten)]
        flags: Flags,
    },
    /// Many nodes in one process, told what to do on a socket
    #[command(hide = true)]
    Crowd {
        /// Their papers, one node a line
        #[arg(long)]
        members: PathBuf,
        #[arg(long)]
        socket: PathBuf,
        #[command(flatten)]
        wish: crowd::Wish,
    },
    /// The least long-poll server there can be, to compare with
    #[command(hide = true)]
    BareServer {
        #[arg(long)]
        keys_dir: PathBuf,
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        hold_s: u64,
    },
    #[command(hide = true)]
    Executor {
        #[arg(long)]
        dir: PathBuf,
        #[arg(long)]
        profile: Profile,
        #[command(flatten)]
        odd: Odd,
    },
    #[command(hide = true)]
    Replica {
        #[arg(long)]
        dir: PathBuf,
    },
    #[command(hide = true)]
    Worker {
        #[arg(long)]
        dir: PathBuf,
    },
    #[command(hide = true)]
    Agent {
        #[arg(long)]
        dir: PathBuf,
    },
}

impl Part {
    pub fn play(self, log: &str) -> anyhow::Result<ExitCode> {
        match self {
            Part::Daemon { flags } => daemon::run(flags),
            Part::Crowd { members, socket, wish } => half::child(crowd::run(members, socket, wish), log),
            Part::BareServer {
                keys_dir,
                listen,
                hold_s,
            } => half::child(crowd::bare::run(&keys_dir, listen, Duration::from_secs(hold_s)), log),
            Part::Executor { dir, profile, odd } => half::executor(dir, profile, odd, log),
            Part::Replica { dir } => replica::run(&dir),
            Part::Worker { dir } => worker::run(&dir),
            Part::Agent { dir } => half::agent(dir, log),
        }
    }
}
