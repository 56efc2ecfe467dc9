//! The names of what a proof tries, and of what it can complain about.

use std::collections::BTreeMap;
use std::fmt;

use super::world::Blow;
use crate::walk::End;

/// One thing tried. `at` counts steps, `write` journal writes, `call` calls of the world, all from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    /// No fault: the finished world, the same each time.
    Clean,
    RunTwice {
        at: usize,
    },
    /// The step fails before or after its effect.
    Fail {
        at: usize,
        blow: Blow,
    },
    Interrupt {
        at: usize,
    },
    /// The step fails after its effect, and every undo is done twice.
    UndoTwice {
        at: usize,
    },
    /// The process dies at a journal write, before or after it is durable.
    Crash {
        write: usize,
        blow: Blow,
    },
    /// The step fails, and on the way back the process dies at a journal write.
    CrashBack {
        at: usize,
        write: usize,
        blow: Blow,
    },
    /// A call of the world fails.
    Fuse {
        call: usize,
        blow: Blow,
    },
    /// The process dies in a call of the world.
    FuseCrash {
        call: usize,
        blow: Blow,
    },
    /// The step fails, and a call made by an undo fails too: stuck, until it is tried again.
    FuseBack {
        at: usize,
        call: usize,
        blow: Blow,
    },
    /// The step fails, and the process dies in a call made by an undo.
    FuseCrashBack {
        at: usize,
        call: usize,
        blow: Blow,
    },
}

impl Cell {
    pub fn kind(self) -> &'static str {
        match self {
            Cell::Clean => "clean",
            Cell::RunTwice { .. } => "run_twice",
            Cell::Fail { .. } => "fail",
            Cell::Interrupt { .. } => "interrupt",
            Cell::UndoTwice { .. } => "undo_twice",
            Cell::Crash { .. } => "crash",
            Cell::CrashBack { .. } => "crash_back",
            Cell::Fuse { .. } => "fuse",
            Cell::FuseCrash { .. } => "fuse_crash",
            Cell::FuseBack { .. } => "fuse_back",
            Cell::FuseCrashBack { .. } => "fuse_crash_back",
        }
    }
}

/// What was tried, all of it as it should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proof {
    pub cells: usize,
    pub by_kind: BTreeMap<&'static str, usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Complaint {
    /// The fault was planted and never met: the cell proves nothing.
    FaultDidNotFire,
    WrongEnd {
        end: End,
    },
    /// It ended done, but the world is not the finished one.
    NotFinished {
        seen: String,
        finished: String,
    },
    /// It was undone, but the world is not the clean one.
    NotClean {
        seen: String,
        clean: String,
    },
    /// Afterwards the whole table, walked again, does not lead to the finished world.
    NotRepeatable {
        seen: String,
        finished: String,
    },
}

/// Everything that was not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaints(pub Vec<(Cell, Complaint)>);

impl Complaints {
    pub fn has(&self, is: impl Fn(&Cell, &Complaint) -> bool) -> bool {
        self.0.iter().any(|(cell, complaint)| is(cell, complaint))
    }
}

impl fmt::Display for Complaints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} cells are not as they should be:", self.0.len())?;
        self.0
            .iter()
            .try_for_each(|(cell, complaint)| writeln!(f, "  {cell:?}: {complaint:?}"))
    }
}

impl std::error::Error for Complaints {}
