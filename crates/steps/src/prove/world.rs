//! What a proof needs from the world that the steps act on: a clean copy, a picture of it, and a fuse at every call.

use std::fmt::Debug;

use crate::step::Context;

/// A world that can be made anew, looked at and broken. A snapshot shows both sides, what is on record and what is
/// really there; what it leaves out is not proven.
pub trait World: Sized {
    type Context: Context;
    type Snapshot: PartialEq + Debug;

    /// Another world, as clean as this one was when it was made.
    fn fresh(&self) -> Self;

    /// A context as a process has it that has just started and only knows the task.
    fn context(&self) -> Self::Context;

    fn snapshot(&self) -> Self::Snapshot;

    /// The calls made so far that could have blown the fuse.
    fn calls(&self) -> usize;

    /// From now on, let the call after `after` more calls fail, once.
    fn set_fuse(&self, after: usize, blow: Blow);

    fn fuse_blown(&self) -> bool;
}

/// On which side of its effect a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blow {
    /// Nothing happened.
    Before,
    /// It happened, but the caller is told that it did not.
    After,
}

impl Blow {
    pub const BOTH: [Self; 2] = [Self::Before, Self::After];
}
