//! Tries a table out, every fault at every place, and compares the world afterwards with the clean or the finished
//! one. A proof says how many cells it tried, so that a test can notice when they become fewer. It refuses a fault
//! that was planted and not met. The world begins as its author makes it: one proof from an empty world, and one from
//! a world where everything stands already, say that an undo takes away what its walk made, and nothing else.

mod cell;
mod rig;
mod world;

pub use cell::{Cell, Complaint, Complaints, Proof};
pub use world::{Blow, World};

use crate::step::{OnFail, Table};
use crate::walk::End;
use rig::{Fuse, Plan, Trial, try_out};

/// Every step run twice, failed before and after its effect, interrupted, undone twice; every journal write and every
/// call of the world met by a crash, on the way there and on the way back; every call of the world failed.
pub fn prove<W: World>(table: &Table<W::Context>, world: &W) -> Result<Proof, Complaints> {
    let mut prover = Prover {
        table,
        world,
        clean: world.fresh().snapshot(),
        finished: None,
        proof: Proof::default(),
        complaints: Vec::new(),
    };
    prover.all();
    if prover.complaints.is_empty() {
        Ok(prover.proof)
    } else {
        Err(Complaints(prover.complaints))
    }
}

struct Prover<'a, W: World> {
    table: &'a Table<W::Context>,
    world: &'a W,
    clean: W::Snapshot,
    finished: Option<W::Snapshot>,
    proof: Proof,
    complaints: Vec<(Cell, Complaint)>,
}

/// How a cell may end. The world is compared in either case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Done,
    /// Undone, or halted where there is no way back.
    Back,
    /// Either: a step may try a failed call again by itself.
    Any,
}

impl<W: World> Prover<'_, W> {
    fn all(&mut self) {
        let world = self.world.fresh();
        let first = try_out(self.table, &world, Plan::default());
        self.finished = Some(world.snapshot());
        self.cell(Cell::Clean, Plan::default(), Expect::Done);
        if first.end != End::Done {
            return; // the complaint is written; nothing else could be read
        }
        for call in 0..first.calls {
            for blow in Blow::BOTH {
                let fuse = |dies| Plan {
                    fuse: Some(Fuse {
                        call,
                        blow,
                        back: false,
                        dies,
                    }),
                    ..Plan::default()
                };
                self.cell(Cell::Fuse { call, blow }, fuse(false), Expect::Any);
                self.cell(Cell::FuseCrash { call, blow }, fuse(true), Expect::Done);
            }
        }
        for write in 0..first.writes {
            for blow in Blow::BOTH {
                let plan = Plan {
                    crash: Some((write, blow)),
                    ..Plan::default()
                };
                self.cell(Cell::Crash { write, blow }, plan, Expect::Done);
            }
        }
        for at in 0..self.table.steps.len() {
            self.step(at);
        }
    }

    fn step(&mut self, at: usize) {
        let plan = Plan::default();
        self.cell(
            Cell::RunTwice { at },
            Plan {
                run_twice: Some(at),
                ..plan
            },
            Expect::Done,
        );
        self.cell(
            Cell::Interrupt { at },
            Plan {
                interrupt: Some(at),
                ..plan
            },
            Expect::Back,
        );
        let before = Plan {
            fail: Some((at, Blow::Before)),
            ..plan
        };
        self.cell(Cell::Fail { at, blow: Blow::Before }, before, Expect::Back);
        let after = Plan {
            fail: Some((at, Blow::After)),
            ..plan
        };
        let failed = self.cell(Cell::Fail { at, blow: Blow::After }, after, Expect::Back);
        if self.table.on_fail == OnFail::Halt {
            return;
        }
        self.cell(
            Cell::UndoTwice { at },
            Plan {
                undo_twice: true,
                ..after
            },
            Expect::Back,
        );
        for write in failed.writes_forward..failed.writes {
            for blow in Blow::BOTH {
                let plan = Plan {
                    crash: Some((write, blow)),
                    ..after
                };
                self.cell(Cell::CrashBack { at, write, blow }, plan, Expect::Back);
            }
        }
        for call in 0..failed.calls - failed.calls_forward {
            for blow in Blow::BOTH {
                let fuse = |dies| Plan {
                    fuse: Some(Fuse {
                        call,
                        blow,
                        back: true,
                        dies,
                    }),
                    ..after
                };
                self.cell(Cell::FuseBack { at, call, blow }, fuse(false), Expect::Back);
                self.cell(Cell::FuseCrashBack { at, call, blow }, fuse(true), Expect::Back);
            }
        }
    }

    /// Tries one plan and compares the world; then, if the walk went back, walks again without a fault: what was
    /// undone or halted must not stand in the way of the next attempt.
    fn cell(&mut self, cell: Cell, plan: Plan, expect: Expect) -> Trial {
        let world = self.world.fresh();
        let trial = try_out(self.table, &world, plan);
        self.proof.cells += 1;
        *self.proof.by_kind.entry(cell.kind()).or_default() += 1;
        let mut found = Vec::new();
        if !trial.fired {
            found.push(Complaint::FaultDidNotFire);
        }
        let seen = world.snapshot();
        let finished = self.finished.as_ref().filter(|finished| **finished != seen);
        let wrong = || Complaint::WrongEnd { end: trial.end.clone() };
        match (&trial.end, expect) {
            (End::Done, Expect::Done | Expect::Any) => found.extend(finished.map(|finished| {
                let (seen, finished) = (format!("{seen:?}"), format!("{finished:?}"));
                Complaint::NotFinished { seen, finished }
            })),
            (End::Undone { .. }, Expect::Back | Expect::Any) if seen != self.clean => {
                let (seen, clean) = (format!("{seen:?}"), format!("{:?}", self.clean));
                found.push(Complaint::NotClean { seen, clean });
            }
            (End::Undone { .. } | End::Halted { .. }, Expect::Back | Expect::Any) => found.extend(self.again(&world)),
            (End::Done | End::Undone { .. } | End::Halted { .. } | End::Stuck { .. }, _) => found.push(wrong()),
        }
        self.complaints
            .extend(found.into_iter().map(|complaint| (cell, complaint)));
        trial
    }

    fn again(&self, world: &W) -> Option<Complaint> {
        let again = try_out(self.table, world, Plan::default());
        let seen = world.snapshot();
        let finished = self.finished.as_ref()?;
        (again.end != End::Done || seen != *finished).then(|| {
            let (seen, finished) = (format!("{seen:?}"), format!("{finished:?}"));
            Complaint::NotRepeatable { seen, finished }
        })
    }
}
