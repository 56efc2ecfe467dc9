//! What outsiders read, held by golden files, and what the binary says of itself.

mod binary;
mod contract;
mod documents;
mod keys;
mod secrets;
