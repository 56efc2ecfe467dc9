//! One at a time at a function's power and ROM: whoever wakes it looks first whether it may sleep, and lets it sleep again
//! afterwards, which nobody else may be in the middle of. A reader waits for a reset, and a reset for a reader.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::value::Pci;

#[derive(Default)]
pub(super) struct Turns(Mutex<BTreeMap<Pci, Arc<Mutex<()>>>>);

impl Turns {
    /// Not to be asked for again from within `work`.
    pub(super) fn of<T>(&self, pci: Pci, work: impl FnOnce() -> T) -> T {
        let own = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(pci).or_default())
        };
        // What somebody else left in the middle of a panic, the kernel's files say.
        let _turn = own.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }
}
