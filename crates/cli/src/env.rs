//! Everything that a run is given from outside: variables, streams, whether they are terminals, and the person's
//! Ctrl-C. A test gives its own; nothing else in this crate looks at the process.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Cursor, IsTerminal, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Mutex as Turn, Notify};

use crate::config;

pub struct Env {
    pub(crate) vars: BTreeMap<String, String>,
    pub(crate) stdin: Box<dyn BufRead + Send>,
    pub(crate) stdout: Box<dyn Write + Send>,
    pub(crate) stderr: Box<dyn Write + Send>,
    pub(crate) tty: Tty,
    pub(crate) interrupt: Interrupt,
}

/// Which streams a person sits at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tty {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

/// How a wait hears that the person has had enough.
#[derive(Clone)]
pub(crate) enum Interrupt {
    CtrlC(Arc<OnceLock<Option<Turn<Signal>>>>),
    Told(Arc<Notify>),
}

impl Interrupt {
    /// From the call on, and not only while somebody waits: one that comes between two waits is heard by the second.
    pub(crate) fn heard(&self) -> impl Future<Output = ()> {
        if let Self::CtrlC(signals) = self {
            signals.get_or_init(|| signal(SignalKind::interrupt()).ok().map(Turn::new));
        }
        async move {
            match self {
                Self::CtrlC(signals) => match signals.get() {
                    Some(Some(signals)) => drop(signals.lock().await.recv().await),
                    // Without a handler Ctrl-C ends the process as it always did.
                    _ => std::future::pending().await,
                },
                Self::Told(notify) => notify.notified().await,
            }
        }
    }
}

impl Env {
    pub fn of_process() -> Self {
        let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        Self {
            vars: config::variables(),
            tty: Tty {
                stdin: stdin.is_terminal(),
                stdout: stdout.is_terminal(),
                stderr: stderr.is_terminal(),
            },
            stdin: Box::new(BufReader::new(stdin)),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            interrupt: Interrupt::CtrlC(Arc::default()),
        }
    }

    /// For tests: the given variables and no others, and streams that can be read afterwards.
    pub fn captured<'a>(vars: impl IntoIterator<Item = (&'a str, &'a str)>) -> (Self, Captured) {
        let captured = Captured::default();
        let env = Self {
            vars: vars
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            stdin: Box::new(Cursor::new(Vec::new())),
            stdout: Box::new(captured.stdout.clone()),
            stderr: Box::new(captured.stderr.clone()),
            tty: Tty::default(),
            interrupt: Interrupt::Told(Arc::clone(&captured.interrupt)),
        };
        (env, captured)
    }

    pub fn with_stdin(mut self, text: &str) -> Self {
        self.stdin = Box::new(Cursor::new(text.as_bytes().to_vec()));
        self
    }

    /// As if a person sat at these streams.
    pub fn with_tty(mut self, tty: Tty) -> Self {
        self.tty = tty;
        self
    }
}

/// What a captured run has said so far, and a finger on its Ctrl-C.
#[derive(Clone, Default)]
pub struct Captured {
    stdout: Tape,
    stderr: Tape,
    interrupt: Arc<Notify>,
}

impl Captured {
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Ctrl-C, once; heard even if the wait has not begun.
    pub fn interrupt(&self) {
        self.interrupt.notify_one();
    }
}

#[derive(Clone, Default)]
struct Tape(Arc<Mutex<Vec<u8>>>);

impl Tape {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Tape {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::process::{self, getpid, kill_process};

    use super::*;

    #[tokio::test]
    async fn a_signal_between_two_waits_is_heard_by_the_second() {
        let mut arrived = signal(SignalKind::interrupt()).expect("a handler");
        let interrupt = Interrupt::CtrlC(Arc::default());
        drop(interrupt.heard());
        kill_process(getpid(), process::Signal::INT).expect("our own process");
        arrived.recv().await;
        tokio::time::timeout(Duration::from_secs(30), interrupt.heard())
            .await
            .expect("it was sent");
    }
}
