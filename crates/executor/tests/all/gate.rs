//! A host that stands still on command: a task can be held in the middle of a step, without waiting for time.

use std::sync::{Arc, Condvar, Mutex};

use host::pretend::Pretend;
use host::{Resident, Result, Tenant, Users};
use model::task::{deprovision_user::Absent, provision_user::Verified};
use model::value::SshKey;

/// Holds every caller of one verb until it is opened.
pub(crate) struct Gate {
    verb: &'static str,
    inner: Pretend,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: usize,
    open: bool,
}

impl Gate {
    pub(crate) fn before(verb: &'static str, inner: &Pretend) -> Arc<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Arc::new(Self {
            verb,
            inner: inner.clone(),
            state,
            changed,
        })
    }

    /// Waits until somebody stands before it.
    pub(crate) fn reached(&self) {
        let state = self.state.lock().expect("unbroken");
        drop(
            self.changed
                .wait_while(state, |state| state.waiting == 0)
                .expect("unbroken"),
        );
    }

    pub(crate) fn open(&self) {
        self.state.lock().expect("unbroken").open = true;
        self.changed.notify_all();
    }

    pub(crate) fn pass(&self, verb: &str) -> &Pretend {
        if verb == self.verb {
            let mut state = self.state.lock().expect("unbroken");
            state.waiting += 1;
            self.changed.notify_all();
            drop(self.changed.wait_while(state, |state| !state.open).expect("unbroken"));
        }
        &self.inner
    }
}

macro_rules! gated {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl Users for Gate {
            fn residents(&self) -> Result<Vec<Resident>> {
                self.inner.residents()
            }
            $(fn $name(&self, tenant: &Tenant $(, $arg: $type)*) -> Result<$answer> {
                self.pass(stringify!($name)).$name(tenant $(, $arg)*)
            })*
        }
    };
}
gated! {
    refuse_foreign() -> ();
    ensure_account(gpu_access: bool) -> ();
    ensure_no_account() -> ();
    ensure_home() -> String;
    ensure_no_home() -> ();
    ensure_keys(keys: &[SshKey]) -> ();
    ensure_no_keys() -> ();
    verified(gpu_access: bool, keys: &[SshKey]) -> Verified;
    ensure_locked() -> ();
    ensure_no_schedules() -> ();
    ensure_no_processes() -> u32;
    ensure_no_files() -> ();
    ensure_no_ipc() -> ();
    absent() -> Absent;
    leftovers() -> Vec<String>;
}
