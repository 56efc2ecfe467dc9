//! The way out to the agent, from any thread. Nobody waits on it: a message that finds no connection or no room is
//! dropped, because everything that matters is in the journal and is said again when the agent comes back.

use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::socket::FromExecutor;

/// Messages that may wait for a slow agent.
const QUEUE: usize = 1024;

#[derive(Default)]
pub(crate) struct Outlet(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    next: u64,
    current: Option<Connected>,
}

struct Connected {
    number: u64,
    messages: SyncSender<FromExecutor>,
    /// To hang up on it.
    stream: UnixStream,
}

impl Outlet {
    /// The newest connection is the one; an older one is hung up on. Gives its number and what is to be written to it.
    pub(crate) fn connect(&self, stream: UnixStream) -> (u64, Receiver<FromExecutor>) {
        let (messages, queue) = sync_channel(QUEUE);
        let mut inner = self.inner();
        inner.next += 1;
        let number = inner.next;
        if let Some(old) = inner.current.replace(Connected {
            number,
            messages,
            stream,
        }) {
            old.hang_up();
        }
        (number, queue)
    }

    /// Ends this connection, and only this one: it may have been replaced long ago.
    pub(crate) fn disconnect(&self, number: u64) {
        let gone = self.inner().current.take_if(|current| current.number == number);
        if let Some(gone) = gone {
            gone.hang_up();
        }
    }

    pub(crate) fn close(&self) {
        if let Some(last) = self.inner().current.take() {
            last.hang_up();
        }
    }

    pub(crate) fn send(&self, message: FromExecutor) {
        let mut inner = self.inner();
        let Some(current) = &inner.current else { return };
        match current.messages.try_send(message) {
            Ok(()) => return,
            Err(TrySendError::Full(_)) => tracing::warn!("the agent does not read; hanging up"),
            Err(TrySendError::Disconnected(_)) => {}
        }
        if let Some(lost) = inner.current.take() {
            lost.hang_up();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connected {
    fn hang_up(&self) {
        // Fails only on a stream that the other side has closed already.
        self.stream.shutdown(std::net::Shutdown::Both).ok();
    }
}
