//! The whole platform on one machine: a private database, every role in one process, and simulated nodes, each a
//! real agent and a real executor in processes of their own above a pretended host. What a newcomer runs and what
//! the tests stand on is the same code.

pub mod api;
pub mod bench;
pub mod children;
pub mod crowd;
pub mod daemon;
pub mod demo;
pub mod dice;
pub mod figures;
pub mod freezer;
pub mod front;
pub mod fuzz;
pub mod half;
pub mod history;
pub mod images;
pub mod key_rotations;
pub mod killer;
pub mod parts;
mod people;
pub mod platform;
pub mod proxy;
pub mod replica;
pub mod run;
pub mod simnode;
pub mod slice;
pub mod slots;
pub mod soak;
pub mod state;
pub mod tail;
pub mod tenant;
pub mod torture;
pub mod town;
pub mod verbs;
pub mod vitals;
pub mod worker;

/// The runtime of every process that this binary can be.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}
