//! The house rules that no compiler holds: sizes, arrows between crates, what may be linked where,
//! licences, lists that may only shrink, and documents that name only what exists. It reads files and
//! `cargo metadata`, and uses nothing of ours, so it runs however broken the rest is.

mod abuse;
mod arrows;
mod authority;
mod dependencies;
mod documents;
mod events;
mod expects;
mod graph;
mod ratchet;
mod sizes;
mod sources;
mod tree;
mod units;
mod workspace;
