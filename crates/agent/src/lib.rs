//! The network half of the node agent. It enrols, renews, polls, reports and probes its own hops; it holds no
//! privilege and decides nothing: every task goes to the executor as it came, every result to the control plane as
//! it was signed. Killed at any instruction it loses nothing, because it keeps nothing but its identity.

pub mod api;
mod beat;
pub mod clock;
mod disk;
mod enrol;
mod errands;
pub mod executor;
pub mod identity;
mod node;
mod outbox;
pub mod pace;
mod poll;
pub mod probe;
pub mod renew;
mod run;
pub mod telemetry;

pub use clock::Clock;
pub use pace::Pace;
pub use run::{Options, run};

/// No core dumps: the working key and enrolment secrets live in this process's memory.
pub fn forbid_cores() -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    Ok(setrlimit(Resource::Core, none)?)
}

/// As it stands in every log line, session and probe.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
