//! The root half of a node. It re-verifies each signed task, writes it down, runs the handler that was compiled for
//! it, and answers over a Unix socket with a signed result. It holds no network code: it refuses to be asked in any
//! other way, and to do anything that is not in [`model::task`].

mod catalogue;
mod clock;
mod device;
mod disk;
mod durable;
mod enroll;
mod errands;
mod held;
mod identity;
mod journal;
mod keys;
mod machine;
mod node;
mod offer;
mod outlet;
mod pair;
mod policy;
mod refusals;
mod result;
mod run;
pub mod sandbox;
mod serve;
mod shelf;
mod socket;
mod stop;
mod tasks;
pub mod trial;
mod trust_store;
mod upkeep;
mod verify;

use std::path::PathBuf;
use std::sync::Arc;

use host::Host;

pub use clock::Clock;
pub use enroll::enroll;
pub use errands::Errands;
pub use policy::SlicePolicy;
pub use stop::Stop;
pub use tasks::{discover, proof};

use node::Node;

/// Everything an executor is given. It reads nothing else.
pub struct Options {
    /// Journal, keys and trust; of root alone.
    pub state_dir: PathBuf,
    pub socket_path: PathBuf,
    /// node.toml: the pinned root and the allowed task types.
    pub policy_path: PathBuf,
    pub host: Host,
    /// The group whose members may connect, besides root.
    pub agent_group: Option<u32>,
    pub clock: Clock,
    pub limits: Limits,
    /// How the agent is asked for what needs a network; a real host connects to guests by it.
    pub errands: Arc<Errands>,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How large a new journal is made.
    pub journal_bytes: u64,
    /// With less room than this on the state directory's disk nothing new is taken.
    pub min_free_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            journal_bytes: 16 << 20,
            min_free_bytes: 256 << 20,
        }
    }
}

impl Options {
    /// With the machine's clock, the usual limits and no group.
    pub fn new(
        state_dir: impl Into<PathBuf>,
        socket_path: impl Into<PathBuf>,
        policy_path: impl Into<PathBuf>,
        host: Host,
    ) -> Self {
        let (state_dir, socket_path) = (state_dir.into(), socket_path.into());
        let (policy_path, clock, limits) = (policy_path.into(), Clock::real(), Limits::default());
        Self {
            state_dir,
            socket_path,
            policy_path,
            host,
            agent_group: None,
            clock,
            limits,
            errands: Arc::default(),
        }
    }
}

/// Serves until told to stop. What runs then is resumed by the next start. An error means that the journal can no
/// longer be relied on in this process.
pub fn run(options: Options, stop: Stop) -> anyhow::Result<()> {
    let node = Node::start(options, stop)?;
    let listener = socket::bind(&node.options.socket_path, node.options.agent_group)?;
    if let Some(why) = node.options.host.operations.hindrance() {
        tracing::warn!(
            why,
            "what a task starts ends with its process group, and not with a cgroup of its own"
        );
    }
    run::start_claimed(&node);
    upkeep::spawn(&node)?;
    shelf::spawn(&node)?;
    tracing::info!(
        socket = %node.options.socket_path.display(),
        simulated = node.options.host.is_simulated(),
        "executor serves"
    );
    let served = socket::accept(&node, &listener);
    node.stop.stop();
    node.finish()?;
    Ok(served?)
}
