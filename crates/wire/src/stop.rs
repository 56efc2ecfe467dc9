//! One stop signal for a whole process, or for a part of it: whoever holds a `Stop` can wait for it, and work that
//! sees it finishes what it has begun.

use std::io;

use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug, Default)]
pub struct Stop(CancellationToken);

impl Stop {
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops with its parent, or alone.
    pub fn child(&self) -> Self {
        Self(self.0.child_token())
    }

    pub fn trigger(&self) {
        self.0.cancel();
    }

    pub fn is_stopped(&self) -> bool {
        self.0.is_cancelled()
    }

    /// For loops that know tokio's own token and not this type.
    pub fn token(&self) -> CancellationToken {
        self.0.clone()
    }

    /// No `async fn`: every connection keeps one, and that would wrap it once more.
    pub fn stopped(&self) -> impl Future<Output = ()> {
        self.0.cancelled()
    }

    /// The future's output, or none if the stop came first.
    pub async fn or<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.stopped() => None,
            done = work => Some(done),
        }
    }

    /// Stops at the first SIGINT or SIGTERM.
    pub fn on_signals() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let stop = Self::new();
        let trigger = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            trigger.trigger();
        });
        Ok(stop)
    }
}
