//! What outsiders read, held by golden files, and what the binary says of itself.

mod binary;
mod documents;
mod secrets;
