//! Keeps PostgreSQL running. A thread of its own starts it and waits for it as long as it lives: the parent-death
//! signal fires when the starting thread ends, so that thread must not be one that a runtime retires. A server that
//! dies without being asked is started again, after a pause that grows.

use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::metrics::counter;
use rustix::process::{Pid, Signal, kill_process};

use super::ManagedError;
use super::account::Runner;
use super::find::Programs;
use super::place::Place;
use crate::metrics::POSTGRES_RESTARTS;

const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MOST: Duration = Duration::from_secs(10);
/// One that ran this long was healthy: the next pause is the first again.
const HEALTHY: Duration = Duration::from_secs(60);
const TESTS_ONLY: [&str; 4] = [
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "max_connections=400",
];

#[derive(Debug)]
pub(super) struct Supervisor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    pg_ctl: Mutex<Command>,
    runner: Runner,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    restarts: AtomicU32,
}

#[derive(Debug, Default)]
struct State {
    stopping: bool,
    /// None between two lives.
    pid: Option<Pid>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Supervisor {
    pub(super) fn start(
        place: &Place,
        programs: &Programs,
        runner: Runner,
        durable: bool,
    ) -> Result<Self, ManagedError> {
        let mut server = runner.command(programs, "postgres");
        server.arg("-D").arg(&place.data).arg("-k").arg(&place.sock);
        server.args([
            "-p",
            "5432",
            "-c",
            "listen_addresses=",
            "-c",
            "unix_socket_permissions=0700",
        ]);
        if !durable {
            server.args(TESTS_ONLY.iter().flat_map(|setting| ["-c", setting]));
        }
        let log = place.open_log()?;
        let both = log.try_clone().map_err(ManagedError::file(&place.log))?;
        server.stdout(both).stderr(log);

        let mut pg_ctl = runner.command(programs, "pg_ctl");
        pg_ctl
            .args(["stop", "-m", "fast", "-w", "-t", "60", "-D"])
            .arg(&place.data);

        let shared = Arc::new(Shared::default());
        let (tell, told) = mpsc::channel();
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("postgres".to_owned())
            .spawn(move || keep_running(server, &of_thread, &tell));
        let thread = thread.map_err(ManagedError::file(&place.data))?;
        match told.recv() {
            Ok(Ok(())) => Ok(Self {
                shared,
                thread: Some(thread),
                pg_ctl: Mutex::new(pg_ctl),
                runner,
            }),
            Ok(Err(source)) => Err(ManagedError::file(&programs.dir)(source)),
            Err(_) => Err(ManagedError::NotReady { log: place.log_tail() }),
        }
    }

    pub(super) fn restarts(&self) -> u32 {
        self.shared.restarts.load(Ordering::SeqCst)
    }

    /// Before it was ever ready, one death is enough to say so.
    pub(super) fn gave_up_early(&self) -> bool {
        self.restarts() > 0
    }

    pub(super) fn stop(mut self) -> Result<(), ManagedError> {
        self.shared.state().stopping = true;
        self.shared.changed.notify_all();
        let alive = self.shared.state().pid.is_some();
        let stopped = if alive {
            let mut pg_ctl = self.pg_ctl.lock().unwrap_or_else(PoisonError::into_inner);
            self.runner.run(&mut pg_ctl, "pg_ctl")
        } else {
            Ok(())
        };
        if stopped.is_ok()
            && let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that keeps PostgreSQL running had panicked");
        }
        stopped
    }
}

impl Drop for Supervisor {
    /// Asks without waiting: a fast shutdown, like the one that our death would cause.
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.stopping = true;
        self.shared.changed.notify_all();
        if let Some(pid) = state.pid.take()
            && let Err(error) = kill_process(pid, Signal::INT)
        {
            tracing::warn!(%error, "PostgreSQL could not be asked to stop");
        }
    }
}

fn keep_running(mut server: Command, shared: &Shared, tell: &mpsc::Sender<std::io::Result<()>>) {
    let mut pause = PAUSE_FIRST;
    loop {
        let began = Instant::now();
        let ended = match spawn(&mut server, shared) {
            Ok(Some(mut child)) => {
                tell_once(tell, Ok(()));
                child.wait()
            }
            Ok(None) => return, // stopped before it began
            Err(error) => {
                let kept = std::io::Error::from(error.kind());
                tell_once(tell, Err(error));
                Err(kept)
            }
        };
        let mut state = shared.state();
        state.pid = None;
        if state.stopping {
            return;
        }
        shared.restarts.fetch_add(1, Ordering::SeqCst);
        counter!(POSTGRES_RESTARTS).increment(1);
        tracing::error!(
            ?ended,
            code = "database_unavailable",
            "PostgreSQL ended without being asked; starting it again"
        );
        if began.elapsed() > HEALTHY {
            pause = PAUSE_FIRST;
        }
        let woken = shared.changed.wait_timeout_while(state, pause, |state| !state.stopping);
        if woken.unwrap_or_else(PoisonError::into_inner).0.stopping {
            return;
        }
        pause = (pause * 2).min(PAUSE_MOST);
    }
}

fn spawn(server: &mut Command, shared: &Shared) -> std::io::Result<Option<Child>> {
    let mut state = shared.state();
    if state.stopping {
        return Ok(None);
    }
    let child = server.spawn()?;
    state.pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok(Some(child))
}

/// Whoever started us listens for the first life only.
fn tell_once(tell: &mpsc::Sender<std::io::Result<()>>, how: std::io::Result<()>) {
    drop(tell.send(how));
}
