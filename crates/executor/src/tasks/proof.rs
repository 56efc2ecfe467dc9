//! The pretend host as the prover's world, the same for every task type.

use std::path::PathBuf;

use host::pretend::{self, Pretend, Profile, State};
use model::time::Timestamp;
use steps::{Blow, Complaints, Proof, World};

use super::{Handler, Sources, Surroundings};
use crate::Clock;
use crate::policy::SlicePolicy;

/// Proves a handler's table for these parameters, on a machine that begins as `prepare` leaves it.
pub(super) fn prove<H: Handler>(
    params: H::Params,
    profile: Profile,
    prepare: fn(&mut State),
) -> Result<Proof, Complaints> {
    let pretend = Pretend::in_memory(profile);
    pretend.meddle(prepare);
    let begins = pretend.snapshot();
    let machine = Machine::<H> {
        pretend,
        params,
        profile,
        begins,
    };
    steps::prove(&H::TABLE, &machine)
}

/// Two proofs as one.
pub(super) fn sum(mut one: Proof, other: Proof) -> Proof {
    one.cells += other.cells;
    for (kind, cells) in other.by_kind {
        *one.by_kind.entry(kind).or_default() += cells;
    }
    one
}

struct Machine<H: Handler> {
    pretend: Pretend,
    params: H::Params,
    profile: Profile,
    /// As every trial finds it.
    begins: State,
}

impl<H: Handler> World for Machine<H> {
    type Context = H::Context;
    type Snapshot = State;

    fn fresh(&self) -> Self {
        Self {
            pretend: Pretend::as_left(self.profile, self.begins.clone()),
            params: self.params.clone(),
            profile: self.profile,
            begins: self.begins.clone(),
        }
    }

    fn context(&self) -> H::Context {
        let around = Surroundings {
            op_id: uuid::Uuid::from_u128(0xa1).into(),
            task_id: uuid::Uuid::from_u128(0xa2).into(),
            epoch: 1,
            clock: Clock::fixed(Timestamp::from_millis(1_800_000_000_000)),
            node_id: uuid::Uuid::from_u128(0xb1).into(),
            slices: slices(),
            sources: Sources::default(),
            host: self.pretend.host(),
            // Where nothing can be written: a proof leaves nothing behind.
            state_dir: PathBuf::from("/dev/null"),
            journal_used_pct: 0,
            clock_skew_ms: 0,
        };
        H::context(&self.params, &around)
    }

    fn snapshot(&self) -> State {
        let mut state = self.pretend.snapshot();
        // A cache: what is in it was verified, and stays for the next who wants it.
        state.slicing.store.clear();
        state
    }

    fn calls(&self) -> usize {
        self.pretend.calls()
    }

    fn set_fuse(&self, after: usize, blow: Blow) {
        let blow = match blow {
            Blow::Before => pretend::Blow::Before,
            Blow::After => pretend::Blow::After,
        };
        self.pretend.set_fuse(after, blow);
    }

    fn fuse_blown(&self) -> bool {
        self.pretend.fuse_blown()
    }
}

/// A host whose owner has prepared it for slices.
pub(super) fn slices() -> SlicePolicy {
    SlicePolicy {
        cidr: Some("10.77.0.0/24".parse().expect("a network")),
        bridges: vec!["br-slices".parse().expect("a name")],
    }
}
