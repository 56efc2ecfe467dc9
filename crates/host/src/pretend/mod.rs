//! A machine that is not there: the same verbs over a small state, in memory or in a directory that survives kill -9,
//! with a fuse at every call and a log of every effect. Nothing selects it but a call to [`Pretend`]'s constructors, so
//! no configuration of a real node can.

mod board;
mod devices;
mod disks;
mod facts;
mod fuse;
mod guests;
mod hardware;
mod images;
mod leases;
mod machines;
mod network;
mod operations;
mod profile;
mod readiness;
mod slices;
mod slicing;
mod state;
mod store;
pub mod tree;
mod users;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use board::vast;
pub use fuse::Blow;
pub use hardware::{Fault, Hardware, PretendDisk};
pub use profile::{Profile, ProfileError};
pub use slicing::{Dir, PretendMachine, Slicing};
pub use state::{Account, Leftover, State};

use crate::error::Doing;
use crate::{Error, Host, Result, Tenant};
use fuse::Fuse;
use store::Store;

pub(super) const KERNEL_VERSION: &str = "6.8.0-45-generic";

/// What a write that hangs is said to have been given; nobody waits for it here.
pub(super) const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// Clones share one machine.
#[derive(Clone)]
pub struct Pretend(Arc<Mutex<Inner>>);

struct Inner {
    profile: Profile,
    state: State,
    store: Option<Store>,
    fuse: Fuse,
    takes: Duration,
    slow: BTreeMap<&'static str, Duration>,
}

impl Pretend {
    pub fn in_memory(profile: Profile) -> Self {
        Self::new(profile, None, None)
    }

    /// Goes on where another one was.
    pub fn as_left(profile: Profile, state: State) -> Self {
        Self::new(profile, Some(state), None)
    }

    /// Keeps its state in `dir` and goes on where it was. Effects are logged to `effects.jsonl` beside it, and every
    /// touch to `touches.jsonl`, whether it made a difference or not.
    pub fn in_directory(profile: Profile, dir: &Path) -> Result<Self> {
        let (store, state) = Store::open(dir).doing(|| format!("open the pretend host in {}", dir.display()))?;
        Ok(Self::new(profile, state, Some(store)))
    }

    fn new(profile: Profile, state: Option<State>, store: Option<Store>) -> Self {
        let mut state = state.unwrap_or_else(|| State::of(profile));
        if state.hardware == Hardware::default() {
            // Kept by a build in which machines had no devices.
            state.hardware = profile.hardware();
        }
        Self(Arc::new(Mutex::new(Inner {
            profile,
            state,
            store,
            fuse: Fuse::default(),
            takes: Duration::ZERO,
            slow: BTreeMap::new(),
        })))
    }

    /// From now on every change takes this long, as on a real machine: time enough to be killed in the middle.
    pub fn taking(self, takes: Duration) -> Self {
        self.inner().takes = takes;
        self
    }

    /// And this verb takes so long instead, as a wipe or a reset does.
    pub fn taking_for(self, verb: &'static str, takes: Duration) -> Self {
        self.inner().slow.insert(verb, takes);
        self
    }

    pub fn host(&self) -> Host {
        let pretended = vec![
            "users",
            "facts",
            "devices",
            "disks",
            "leases",
            "images",
            "slices",
            "network",
            "machines",
            "guests",
            "readiness",
        ];
        Host {
            users: Arc::new(self.clone()),
            facts: Arc::new(self.clone()),
            devices: Arc::new(self.clone()),
            disks: Arc::new(self.clone()),
            leases: Arc::new(self.clone()),
            images: Arc::new(self.clone()),
            slices: Arc::new(self.clone()),
            network: Arc::new(self.clone()),
            machines: Arc::new(self.clone()),
            guests: Arc::new(self.clone()),
            ready: Arc::new(self.clone()),
            operations: Arc::new(self.clone()),
            pretended,
        }
    }

    /// All there is to see.
    pub fn snapshot(&self) -> State {
        self.inner().state.clone()
    }

    /// Calls so far, each of which could have blown the fuse.
    pub fn calls(&self) -> usize {
        self.inner().fuse.calls()
    }

    /// Lets the call after `after` more calls fail, once.
    pub fn set_fuse(&self, after: usize, blow: Blow) {
        self.inner().fuse.set(after, blow);
    }

    pub fn fuse_blown(&self) -> bool {
        self.inner().fuse.blown()
    }

    /// Changes the machine behind everybody's back, as an operator or a tenant would.
    pub fn meddle(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.inner().state);
    }

    /// Starts it again: what only the running kernel, switch and hypervisor knew is gone.
    pub fn reboot(&self) -> Result<()> {
        self.act_on("reboot", "", |state| {
            state.boots += 1;
            state
                .slicing
                .machines
                .values_mut()
                .for_each(|there| there.running = false);
            state.slicing.ports.clear();
            state.hardware.holders.clear();
            for kinds in state.leftovers.values_mut() {
                kinds.remove(&Leftover::Process);
                kinds.remove(&Leftover::Ipc);
            }
            state.leftovers.retain(|_, kinds| !kinds.is_empty());
            Ok(())
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change is complete when the lock is let go, so a panic elsewhere has broken nothing here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call of a verb that changes a tenant's things, or would.
    fn act<T>(
        &self,
        verb: &'static str,
        tenant: &Tenant,
        effect: impl FnOnce(&Profile, &mut State) -> Result<T>,
    ) -> Result<T> {
        self.touched(verb, (tenant.name.as_str(), tenant.uid.get()), effect)
    }

    /// One call of a verb that changes something else of the machine, or would.
    fn act_on<T>(&self, verb: &'static str, subject: &str, effect: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        self.touched(verb, (subject, 0), |_, state| effect(state))
    }

    fn touched<T>(
        &self,
        verb: &'static str,
        (name, uid): (&str, u32),
        effect: impl FnOnce(&Profile, &mut State) -> Result<T>,
    ) -> Result<T> {
        let takes = {
            let mut inner = self.inner();
            if let Some(store) = &mut inner.store {
                store
                    .touch(verb, name, uid)
                    .doing(|| "write down a touch of the pretend host".to_owned())?;
            }
            inner.slow.get(verb).copied().unwrap_or(inner.takes)
        };
        if !takes.is_zero() {
            // Nobody unparks it; being late or early would not matter.
            std::thread::park_timeout(takes);
        }
        self.called((verb, name), effect)
    }

    /// One call of a verb that only looks.
    fn call<T>(&self, verb: &'static str, look: impl FnOnce(&Profile, &State) -> Result<T>) -> Result<T> {
        let mut inner = self.inner();
        let blow = inner.fuse.count();
        if blow == Some(Blow::Before) {
            return Err(Error::Fuse { verb });
        }
        let answer = look(&inner.profile, &inner.state)?;
        if blow.is_some() {
            Err(Error::Fuse { verb })
        } else {
            Ok(answer)
        }
    }

    /// The fuse may blow before or after the effect, which is kept when the call returns.
    fn called<T>(
        &self,
        (verb, tenant): (&'static str, &str),
        effect: impl FnOnce(&Profile, &mut State) -> Result<T>,
    ) -> Result<T> {
        let mut inner = self.inner();
        let Inner {
            profile,
            state,
            store,
            fuse,
            ..
        } = &mut *inner;
        let blow = fuse.count();
        if blow == Some(Blow::Before) {
            return Err(Error::Fuse { verb });
        }
        let mut changed = state.clone();
        let answer = effect(profile, &mut changed)?;
        if changed != *state {
            if let Some(kept) = store
                && let Err(error) = kept.keep((verb, tenant), state, &changed)
            {
                // It may have happened or not, as on a real machine: what counts is what is there now.
                if let Ok((store, Some(there))) = kept.reopen() {
                    (*kept, *state) = (store, there);
                }
                return Err(error).doing(|| "keep the pretend host's state".to_owned());
            }
            *state = changed;
        }
        if blow.is_some() {
            Err(Error::Fuse { verb })
        } else {
            Ok(answer)
        }
    }
}
