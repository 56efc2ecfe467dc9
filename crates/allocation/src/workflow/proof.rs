//! Both tables, every fault at every place, on a ground in memory: what is on the host and what is on record are compared
//! with the clean or the finished world.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Poll, Waker};

use model::state::AllocationState;
use steps::{Blow, Context, Proof, Table, World, prove};

use super::{Fail, Flow, Why, pretend};
use pretend::{Facts, Pretend};

/// A process that has just started: it knows the allocation by what the journal says.
struct Process {
    flow: Flow,
    ground: Pretend,
    number: Option<u32>,
}

impl Context for Process {
    type Facts = Option<u32>;
    fn facts(&self) -> Option<u32> {
        self.number
    }
    fn restore(&mut self, number: Option<u32>) {
        self.number = number;
    }
}

impl Process {
    fn act(&mut self, at: usize, back: bool) -> Result<(), steps::Fail> {
        // Whoever begins anew after an end has a new wish.
        if self.flow == Flow::Provision && at == 0 && !back && self.number.is_none() {
            self.number = Some(self.ground.wished());
        }
        let step = &self.flow.steps::<Pretend>()[at];
        let why = Why::default();
        for _ in 0..100 {
            let doing = if back {
                (step.undo)(&self.ground, &why)
            } else {
                (step.run)(&self.ground, &why)
            };
            match now(doing) {
                Ok(()) => return Ok(()),
                Err(Fail::Wait { .. }) => {}
                Err(Fail::Fatal { code, detail }) => return Err(steps::Fail::new(code.as_str(), detail)),
            }
        }
        Err(steps::Fail::new("endless", format!("{} waits for ever", step.name)))
    }
}

/// A ground in memory answers at once.
fn now(mut doing: super::Doing<'_>) -> Result<(), Fail> {
    match doing.as_mut().poll(&mut Poll::from_waker(Waker::noop())) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("nothing in memory is waited for"),
    }
}

fn run<const AT: usize>(process: &mut Process) -> Result<(), steps::Fail> {
    process.act(AT, false)
}

fn undo<const AT: usize>(process: &mut Process) -> Result<(), steps::Fail> {
    process.act(AT, true)
}

macro_rules! table {
    ($($name:literal = $at:literal),*) => {
        &[$(steps::Step { name: $name, run: run::<$at>, undo: undo::<$at> }),*]
    };
}

struct Rented {
    flow: Flow,
    facts: Arc<Mutex<Facts>>,
}

impl Rented {
    fn begin(flow: Flow) -> Self {
        let facts = match flow {
            Flow::Provision => Facts::asked_for(),
            Flow::Release => Facts::to_be_released(),
        };
        Self {
            flow,
            facts: Arc::new(Mutex::new(facts)),
        }
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World for Rented {
    type Context = Process;
    type Snapshot = pretend::Picture;

    fn fresh(&self) -> Self {
        Self::begin(self.flow)
    }
    fn context(&self) -> Process {
        let ground = Pretend(self.facts.clone());
        let number = None;
        Process {
            flow: self.flow,
            ground,
            number,
        }
    }
    fn snapshot(&self) -> pretend::Picture {
        self.facts().picture()
    }
    fn calls(&self) -> usize {
        self.facts().calls
    }
    fn set_fuse(&self, after: usize, blow: Blow) {
        self.facts().fuse = Some((after, blow));
    }
    fn fuse_blown(&self) -> bool {
        self.facts().blown
    }
}

fn proved(flow: Flow, table: &Table<Process>) -> Proof {
    let names: Vec<&str> = flow.steps::<Pretend>().iter().map(|step| step.name).collect();
    assert_eq!(table.names(), names, "the table that is proved is the table that runs");
    prove(table, &Rented::begin(flow)).unwrap_or_else(|complaints| panic!("{complaints}"))
}

#[test]
fn provisioning_holds_whatever_fails() {
    let table = Table::with_way_back(table!("accept" = 0, "make" = 1, "activate" = 2));
    let proof = proved(Flow::Provision, &table);
    assert!(proof.cells > 100, "{proof:?}");
}

#[test]
fn a_release_holds_whatever_fails() {
    let table = Table::forward_only(table!("take_away" = 0, "close" = 1));
    let proof = proved(Flow::Release, &table);
    assert!(proof.cells > 30, "{proof:?}");
}

#[test]
fn whenever_it_is_taken_back_it_is_active_or_gone_in_the_end() {
    let mut ends = [0, 0];
    for moment in 0.. {
        let world = Rented::begin(Flow::Provision);
        world.facts().taken_back_before = Some(moment);
        let mut process = world.context();
        let failed = (0..3).find(|at| process.act(*at, false).is_err());
        for at in (0..=failed.unwrap_or(0)).rev().filter(|_| failed.is_some()) {
            process.act(at, true).expect("the way back");
        }
        let facts = world.facts();
        let wanted = match facts.cancelled {
            true => AllocationState::Cancelled,
            false => AllocationState::Active,
        };
        assert_eq!(facts.state, wanted, "taken back before call {moment}");
        ends[usize::from(facts.cancelled)] += 1;
        if moment > facts.calls {
            break;
        }
    }
    assert!(ends[0] > 0 && ends[1] > 5, "{ends:?}");
}

#[test]
fn what_is_given_back_before_it_was_seen_to_be_active_was_made() {
    let mut given_back = 0;
    for moment in 0.. {
        let world = Rented::begin(Flow::Provision);
        world.facts().given_back_before = Some(moment);
        let mut process = world.context();
        for at in 0..3 {
            process.act(at, false).expect("nobody has taken it back");
        }
        let facts = world.facts();
        given_back += usize::from(facts.state == AllocationState::Releasing);
        if moment > facts.calls {
            break;
        }
    }
    assert!(given_back > 0, "at no moment in between");
}
