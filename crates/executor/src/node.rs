//! What all threads of one executor share, and the only ways to change it. The journal's lock is the one under which
//! a task changes its state; whoever holds it may take another, and whoever holds another never takes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use model::id::{AllocationId, TaskId};
use model::key::KeyId;
use model::node_api::{HeldTask, Progress};
use model::signal::Code;
use model::socket::FromExecutor;
use model::time::Timestamp;
use rustix::fs::{FlockOperation, flock};

use crate::catalogue::CatalogueStore;
use crate::held::Numbers;
use crate::journal::{Entry, Floor, Journal, JournalError};
use crate::keys::Keys;
use crate::machine::Machine;
use crate::outlet::Outlet;
use crate::policy::Policy;
use crate::refusals::Refusals;
use crate::stop::Stop;
use crate::trust_store::TrustStore;
use crate::upkeep::{Busy, Troubles};
use crate::{Options, durable};

pub(crate) struct Node {
    pub(crate) options: Options,
    pub(crate) stop: Stop,
    pub(crate) keys: Keys,
    pub(crate) machine: Machine,
    pub(crate) outlet: Arc<Outlet>,
    trust: Mutex<TrustStore>,
    catalogue: Mutex<CatalogueStore>,
    /// Without a readable journal nothing runs, but the socket says so.
    journal: Result<Mutex<Journal>, JournalError>,
    running: Mutex<BTreeMap<TaskId, Arc<Running>>>,
    refusals: Mutex<Refusals>,
    /// Held tasks that another build has begun and this one cannot go on with.
    stranded: Mutex<BTreeSet<TaskId>>,
    numbers: Mutex<Numbers>,
    /// Who is at work on which allocation.
    pub(crate) busy: Busy,
    /// What the upkeep could not make whole.
    troubles: Mutex<Troubles>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// What made it impossible to go on.
    fatal: Mutex<Option<anyhow::Error>>,
    _lock: File,
}

/// A task that a thread works on.
pub(crate) struct Running {
    pub(crate) fence: u64,
    /// Which key signed it.
    pub(crate) keyid: Option<KeyId>,
    now: Mutex<Now>,
}

#[derive(Clone)]
struct Now {
    phase: String,
    started_at: Option<Timestamp>,
    progress: Option<Progress>,
    /// Why it shall turn back at the next step.
    interrupt: Option<Code>,
}

impl Node {
    pub(crate) fn start(options: Options, stop: Stop) -> anyhow::Result<Arc<Self>> {
        let dir = &options.state_dir;
        durable::ensure_private_dir(dir).with_context(|| format!("make {}", dir.display()))?;
        let lock = lock(&options)?;
        options.errands.reopen();
        let keys = Keys::ensure(dir)?;
        let policy = Policy::read(&options.policy_path)?;
        let trust = TrustStore::open(dir, policy.root_sha256)?;
        let catalogue = CatalogueStore::open(dir)?;
        let machine = Machine::look(&options);
        let journal = match Journal::open(dir, options.limits.journal_bytes) {
            Ok(journal) => Ok(Mutex::new(journal)),
            Err(JournalError::Io(error)) => return Err(error).context("open the journal"),
            Err(damaged) => {
                tracing::error!(code = %damaged.code(), error = %damaged, "nothing will run");
                Err(damaged)
            }
        };
        let node = Self {
            stop,
            keys,
            machine,
            outlet: Arc::clone(&options.errands.outlet),
            trust: Mutex::new(trust),
            catalogue: Mutex::new(catalogue),
            journal,
            running: Mutex::default(),
            refusals: Mutex::default(),
            stranded: Mutex::default(),
            numbers: Mutex::default(),
            busy: Busy::default(),
            troubles: Mutex::default(),
            threads: Mutex::default(),
            fatal: Mutex::default(),
            _lock: lock,
            options,
        };
        node.count_in_epoch();
        Ok(Arc::new(node))
    }

    /// Numbers count per epoch: those of an older one say nothing about the tasks of this one. Done at every start too,
    /// for the process may have died between taking an identity and writing this down.
    pub(crate) fn count_in_epoch(&self) {
        let Some(epoch) = self.trust().identity().map(|identity| identity.epoch) else {
            return;
        };
        let Ok(mut journal) = self.journal() else { return };
        let Floor {
            time, epoch: counted, ..
        } = *journal.book().floor();
        if counted != epoch {
            let seqs = BTreeMap::new();
            // A failure ends the executor, which then says why.
            self.record(&mut journal, Entry::Floor(Floor { time, epoch, seqs }))
                .ok();
        }
    }

    pub(crate) fn trust(&self) -> MutexGuard<'_, TrustStore> {
        open(&self.trust)
    }

    /// Taken after the trust that it is opened under, by whoever needs both.
    pub(crate) fn catalogue(&self) -> MutexGuard<'_, CatalogueStore> {
        open(&self.catalogue)
    }

    pub(crate) fn journal(&self) -> Result<MutexGuard<'_, Journal>, Code> {
        self.journal.as_ref().map(open).map_err(JournalError::code)
    }

    pub(crate) fn running(&self) -> MutexGuard<'_, BTreeMap<TaskId, Arc<Running>>> {
        open(&self.running)
    }

    pub(crate) fn refusals(&self) -> MutexGuard<'_, Refusals> {
        open(&self.refusals)
    }

    /// For whoever looks at what is held; none while somebody does.
    pub(crate) fn numbers(&self) -> Option<MutexGuard<'_, Numbers>> {
        match self.numbers.try_lock() {
            Ok(numbers) => Some(numbers),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn set_troubles(&self, troubles: Troubles) {
        *open(&self.troubles) = troubles;
    }

    pub(crate) fn trouble_with(&self, allocation: AllocationId) -> Option<Code> {
        open(&self.troubles).get(&allocation).copied()
    }

    /// Leaves an open task to the build that began it.
    pub(crate) fn strand(&self, task_id: TaskId) {
        open(&self.stranded).insert(task_id);
    }

    /// Why no task can be taken at all, whatever it is, if so.
    pub(crate) fn trouble(&self) -> Option<Code> {
        let stranded = || (!open(&self.stranded).is_empty()).then_some(Code::Stuck);
        self.journal.as_ref().err().map(JournalError::code).or_else(stranded)
    }

    /// Writes an entry down. If that fails nobody knows what is durable: the process ends and reads it again.
    pub(crate) fn record(&self, journal: &mut Journal, entry: Entry) -> Result<u64, Code> {
        if self.stop.asked() {
            return Err(Code::Interrupted);
        }
        let appended = journal.append(entry, self.options.clock.now());
        appended.map_err(|error| self.journal_failed(error))
    }

    pub(crate) fn make_room(&self, journal: &mut Journal) -> Result<(), Code> {
        let made = journal.make_room(self.options.clock.now());
        made.map_err(|error| self.journal_failed(error))
    }

    fn journal_failed(&self, error: JournalError) -> Code {
        let code = error.code();
        self.give_up(anyhow::Error::new(error).context("write the journal"));
        code
    }

    /// Ends the whole executor; the next start goes on from the journal.
    pub(crate) fn give_up(&self, error: anyhow::Error) {
        tracing::error!(error = format!("{error:#}"), "giving up");
        open(&self.fatal).get_or_insert(error);
        self.stop.stop();
    }

    /// Starts a thread that `finish` waits for. A thread that panics takes the executor with it: what it left half done
    /// is in the journal.
    pub(crate) fn spawn(self: &Arc<Self>, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let guard = Guard(Arc::clone(self));
        let thread = thread::Builder::new().name(name.to_owned()).stack_size(512 * 1024);
        let handle = thread.spawn(move || {
            let _guard = guard;
            work();
        })?;
        let mut threads = open(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        threads.push(handle);
        Ok(())
    }

    /// Waits for all threads; gives the reason why it ended if it was not asked to.
    pub(crate) fn finish(&self) -> anyhow::Result<()> {
        self.options.errands.close();
        self.outlet.close();
        loop {
            let threads = std::mem::take(&mut *open(&self.threads));
            if threads.is_empty() {
                break;
            }
            for thread in threads {
                // A panic has been recorded by the guard.
                thread.join().ok();
            }
        }
        match open(&self.fatal).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Running {
    pub(crate) fn new(fence: u64, keyid: Option<KeyId>) -> Self {
        let phase = "claimed".to_owned();
        let now = Now {
            phase,
            started_at: None,
            progress: None,
            interrupt: None,
        };
        Self {
            fence,
            keyid,
            now: Mutex::new(now),
        }
    }

    pub(crate) fn interrupt(&self, why: Code) {
        open(&self.now).interrupt.get_or_insert(why);
    }

    pub(crate) fn interrupted(&self) -> Option<Code> {
        open(&self.now).interrupt
    }

    pub(crate) fn held(&self, task_id: TaskId) -> HeldTask {
        let now = open(&self.now).clone();
        HeldTask {
            task_id,
            fence: self.fence,
            phase: now.phase,
            started_at: now.started_at,
            progress: now.progress,
        }
    }

    /// Notes where it is and tells the agent.
    pub(crate) fn enters(&self, node: &Node, task_id: TaskId, phase: &str, at: Option<Timestamp>) {
        {
            let mut now = open(&self.now);
            phase.clone_into(&mut now.phase);
            now.started_at = at.or(now.started_at);
            now.progress = None;
        }
        self.tell(&node.outlet, task_id);
    }

    /// The same, of the phase it is in.
    pub(crate) fn moves(&self, outlet: &Outlet, task_id: TaskId, progress: Progress) {
        open(&self.now).progress = Some(progress);
        self.tell(outlet, task_id);
    }

    fn tell(&self, outlet: &Outlet, task_id: TaskId) {
        let task = self.held(task_id);
        outlet.send(FromExecutor::Progress { task });
    }
}

struct Guard(Arc<Node>);

impl Drop for Guard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.give_up(anyhow::anyhow!("a thread panicked"));
        }
    }
}

/// What a panicking thread held is complete at every moment or guarded by the journal, so the lock is simply taken.
fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One executor per state directory.
fn lock(options: &Options) -> anyhow::Result<File> {
    let path = options.state_dir.join("lock");
    let file = File::create(&path).with_context(|| format!("open {}", path.display()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            anyhow::bail!("{}: another executor has {}", Code::AlreadyRunning, path.display())
        }
        Err(error) => Err(error).with_context(|| format!("lock {}", path.display())),
    }
}
