//! The pretend host as the prover's world, the same for every task type.

use std::path::PathBuf;

use host::pretend::{self, Pretend, Profile, State};
use steps::{Blow, Complaints, Proof, World};

use super::{Handler, Surroundings};

/// Proves a handler's table for these parameters, on a machine that begins as `prepare` leaves it.
pub(super) fn prove<H: Handler>(
    params: H::Params,
    profile: Profile,
    prepare: fn(&mut State),
) -> Result<Proof, Complaints> {
    steps::prove(&H::TABLE, &Machine::<H>::new(params, profile, prepare))
}

struct Machine<H: Handler> {
    pretend: Pretend,
    params: H::Params,
    profile: Profile,
    prepare: fn(&mut State),
}

impl<H: Handler> Machine<H> {
    fn new(params: H::Params, profile: Profile, prepare: fn(&mut State)) -> Self {
        let pretend = Pretend::in_memory(profile);
        pretend.meddle(prepare);
        Self {
            pretend,
            params,
            profile,
            prepare,
        }
    }
}

impl<H: Handler> World for Machine<H> {
    type Context = H::Context;
    type Snapshot = State;

    fn fresh(&self) -> Self {
        Self::new(self.params.clone(), self.profile, self.prepare)
    }

    fn context(&self) -> H::Context {
        let around = Surroundings {
            host: self.pretend.host(),
            // Where nothing can be written: a proof leaves nothing behind.
            state_dir: PathBuf::from("/dev/null"),
            journal_used_pct: 0,
            clock_skew_ms: 0,
        };
        H::context(&self.params, &around)
    }

    fn snapshot(&self) -> State {
        self.pretend.snapshot()
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
