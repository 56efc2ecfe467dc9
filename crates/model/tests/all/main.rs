//! What the vocabulary looks like from outside: golden files that a person reads as a diff.

mod explain;
mod golden;
