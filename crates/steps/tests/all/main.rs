//! The engine's promises, each kept once and broken once on purpose.

mod broken;
mod engine;
mod resume;
mod shelf;
