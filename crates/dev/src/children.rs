//! Child processes that are kept alive: started again when they die, stopped when asked, and dead for certain when
//! their keeper is, because each asks the kernel to end it with its parent.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// What to run: this very program, as something else.
#[derive(Clone, Debug)]
pub struct Program {
    pub exe: PathBuf,
    pub args: Vec<String>,
    pub log: PathBuf,
}

/// A child and the thread that watches it.
pub struct Kept {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pid: Option<Pid>,
    starts: u32,
    /// Not started again until this is cleared.
    held: bool,
    /// Its death was asked for, so it comes back at once.
    killed: bool,
    /// It stands still, and nobody kills it meanwhile.
    frozen: bool,
    stopping: bool,
}

impl Kept {
    pub fn start(program: Program) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let watched = shared.clone();
        let keeper = std::thread::spawn(move || keep(&program, &watched));
        Self {
            shared,
            keeper: Some(keeper),
        }
    }

    pub fn pid(&self) -> Option<Pid> {
        self.lock().pid
    }

    /// How often it was started so far.
    pub fn starts(&self) -> u32 {
        self.lock().starts
    }

    /// Kills it on the spot. It is started again, unless it is held. False: nobody was there to be killed.
    pub fn kill(&self) -> bool {
        let mut state = self.lock();
        if state.killed || state.frozen || state.pid.is_none() {
            return false;
        }
        state.killed = true;
        signal(state.pid, Signal::KILL);
        true
    }

    /// Lets it stand still until the answer is dropped. None: nobody was there, or it stands still already.
    pub fn freeze(&self) -> Option<Frozen<'_>> {
        let mut state = self.lock();
        if state.killed || state.frozen || state.pid.is_none() {
            return None;
        }
        state.frozen = true;
        signal(state.pid, Signal::STOP);
        Some(Frozen(self))
    }

    /// Asks it to end, as a deployment would. It is started again at once.
    pub fn replace(&self) {
        let mut state = self.lock();
        state.killed = state.pid.is_some();
        signal(state.pid, Signal::TERM);
    }

    /// Kills it and keeps it down until `release`.
    pub fn hold(&self) {
        let mut state = self.lock();
        state.held = true;
        signal(state.pid, Signal::KILL);
        while state.pid.is_some() {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn release(&self) {
        self.lock().held = false;
        self.shared.changed.notify_all();
    }

    /// Asks it to end, waits, and insists after five seconds.
    pub fn stop(&mut self) {
        let Some(keeper) = self.keeper.take() else { return };
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut state = self.lock();
        state.stopping = true;
        signal(state.pid, Signal::TERM);
        signal(state.pid, Signal::CONT);
        self.shared.changed.notify_all();
        while state.pid.is_some() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                signal(state.pid, Signal::KILL);
            }
            let left = left.max(Duration::from_millis(50));
            state = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        drop(state);
        if keeper.join().is_err() {
            tracing::error!("the keeper of a child process panicked");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A child that stands still, in the middle of whatever it did.
pub struct Frozen<'a>(&'a Kept);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.frozen = false;
        signal(state.pid, Signal::CONT);
    }
}

fn signal(pid: Option<Pid>, signal: Signal) {
    if let Some(pid) = pid
        && let Err(error) = kill_process(pid, signal)
    {
        tracing::debug!(%error, "the child was gone already");
    }
}

/// Runs on a thread of its own that lives as long as the child may: the kernel ends the child with the thread.
fn keep(program: &Program, shared: &Shared) {
    let mut pause = Duration::from_millis(50);
    loop {
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.held && !state.stopping {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stopping {
            return;
        }
        let began = Instant::now();
        match spawn(program) {
            Ok(mut child) => {
                state.pid = Pid::from_raw(child.id().cast_signed());
                state.starts += 1;
                drop(state);
                let ended = child.wait();
                tracing::info!(program = ?program.args.first(), ?ended, "a child process ended");
                state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.pid = None;
                shared.changed.notify_all();
            }
            Err(error) => tracing::error!(%error, exe = %program.exe.display(), "a child process did not start"),
        }
        // One that dies at once is not hammered; one that ran for a while comes back at once.
        let killed = std::mem::take(&mut state.killed);
        pause = if killed || began.elapsed() > Duration::from_secs(5) {
            Duration::from_millis(50)
        } else {
            (pause * 2).min(Duration::from_secs(5))
        };
        if !state.stopping && !state.held {
            drop(
                shared
                    .changed
                    .wait_timeout(state, pause)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }
}

/// Starts it once, and leaves it to the caller. Everything it says goes to its log.
#[expect(
    clippy::disallowed_methods,
    reason = "dev starts the processes of simulated nodes: its own binary, fixed arguments"
)]
pub fn spawn(program: &Program) -> std::io::Result<Child> {
    let log = append(&program.log)?;
    Command::new(&program.exe)
        .args(&program.args)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

fn append(path: &Path) -> std::io::Result<File> {
    File::options().create(true).append(true).open(path)
}
