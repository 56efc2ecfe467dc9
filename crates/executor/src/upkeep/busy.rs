//! Who is at work on which allocation: a task, or the upkeep, never both. Tasks wait for the upkeep, and say so: it takes
//! moments, but for a VM that it starts. The upkeep does not wait for tasks.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use model::id::AllocationId;

#[derive(Default)]
pub(crate) struct Busy {
    taken: Mutex<BTreeMap<AllocationId, Taken>>,
    freed: Condvar,
}

/// By the upkeep, or by so many tasks: those of one allocation keep each other out by other means.
enum Taken {
    Upkeep,
    Tasks(u32),
}

pub(crate) struct Mine<'a> {
    busy: &'a Busy,
    allocation: AllocationId,
}

impl Busy {
    /// For a task. `waits` is called once if it has to wait.
    pub(crate) fn take(&self, allocation: AllocationId, waits: impl FnOnce()) -> Mine<'_> {
        let (mut taken, mut waits) = (self.lock(), Some(waits));
        while let Some(Taken::Upkeep) = taken.get(&allocation) {
            if let Some(waits) = waits.take() {
                drop(taken);
                waits();
                taken = self.lock();
                continue;
            }
            taken = self.freed.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        match taken.entry(allocation).or_insert(Taken::Tasks(0)) {
            Taken::Tasks(count) => *count += 1,
            Taken::Upkeep => {}
        }
        Mine { busy: self, allocation }
    }

    /// For the upkeep; none while a task has it.
    pub(crate) fn try_take(&self, allocation: AllocationId) -> Option<Mine<'_>> {
        let mut taken = self.lock();
        if taken.contains_key(&allocation) {
            return None;
        }
        taken.insert(allocation, Taken::Upkeep);
        Some(Mine { busy: self, allocation })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AllocationId, Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Mine<'_> {
    fn drop(&mut self) {
        let mut taken = self.busy.lock();
        let left = match taken.get_mut(&self.allocation) {
            Some(Taken::Tasks(count)) => {
                *count -= 1;
                *count
            }
            Some(Taken::Upkeep) | None => 0,
        };
        if left == 0 {
            taken.remove(&self.allocation);
        }
        self.busy.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::Busy;

    #[test]
    fn upkeep_and_tasks_keep_out_of_each_others_way() {
        let (busy, ada) = (Busy::default(), uuid::Uuid::from_u128(1).into());
        let free = || panic!("nobody is at work on it");
        let (one, two) = (busy.take(ada, free), busy.take(ada, free));
        assert!(busy.try_take(ada).is_none());
        drop(one);
        assert!(busy.try_take(ada).is_none(), "the other task goes on");
        drop(two);
        let upkeep = busy.try_take(ada);
        assert!(upkeep.is_some() && busy.try_take(ada).is_none());
        let (waits, waited) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let task = scope.spawn(|| busy.take(ada, || waits.send(()).expect("heard")));
            waited.recv().expect("it says that it waits");
            assert!(!task.is_finished());
            drop(upkeep);
            drop(task.join().expect("comes through"));
        });
        assert!(waited.try_recv().is_err(), "it says so once");
        assert!(busy.try_take(ada).is_some());
    }
}
