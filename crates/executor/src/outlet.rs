//! The way out to the agent, from any thread. Nobody waits on it: a message that finds no connection or no room is
//! dropped, because everything that matters is in the journal and is said again when the agent comes back.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::socket::{self, FromExecutor};

/// Messages that may wait for a slow agent.
const QUEUE: usize = 1024;
/// And their bytes.
const QUEUE_BYTES: usize = 16 << 20;

#[derive(Default)]
pub(crate) struct Outlet(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    next: u64,
    current: Option<Connected>,
}

struct Connected {
    number: u64,
    frames: SyncSender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    /// To hang up on it.
    stream: UnixStream,
}

/// What is to be written to one connection.
pub(crate) struct Queue {
    frames: Receiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

impl Queue {
    /// The next frame; none when the outlet has let go of the connection.
    pub(crate) fn next(&self) -> Option<Vec<u8>> {
        let frame = self.frames.recv().ok()?;
        self.waiting.fetch_sub(frame.len(), Ordering::SeqCst);
        Some(frame)
    }
}

impl Outlet {
    /// The newest connection is the one; an older one is hung up on. Gives its number and what is to be written to it.
    pub(crate) fn connect(&self, stream: UnixStream) -> (u64, Queue) {
        let (frames, taken) = sync_channel(QUEUE);
        let waiting = Arc::new(AtomicUsize::new(0));
        let queue = Queue {
            frames: taken,
            waiting: Arc::clone(&waiting),
        };
        let mut inner = self.inner();
        inner.next += 1;
        let number = inner.next;
        if let Some(old) = inner.current.replace(Connected {
            number,
            frames,
            waiting,
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
        let frame = match socket::encode(&message) {
            Ok(frame) => frame,
            Err(error) => return tracing::error!(%error, "a message that cannot be sent"),
        };
        let mut inner = self.inner();
        let Some(current) = &inner.current else { return };
        let bytes = frame.len();
        let waiting = current.waiting.fetch_add(bytes, Ordering::SeqCst);
        if waiting + bytes <= QUEUE_BYTES {
            match current.frames.try_send(frame) {
                Ok(()) => return,
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
        tracing::warn!("the agent does not read; hanging up");
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

#[cfg(test)]
mod tests {
    use model::signal::Code;

    use super::*;

    #[test]
    fn what_waits_for_an_agent_is_bounded_in_bytes() {
        let outlet = Outlet::default();
        let (ours, _theirs) = UnixStream::pair().expect("two ends");
        let (_, queue) = outlet.connect(ours);
        let detail = "x".repeat(500 * 1024);
        for request_id in 0..100 {
            let (code, detail) = (Code::Internal, detail.clone());
            outlet.send(FromExecutor::Failed {
                request_id,
                code,
                detail,
            });
        }
        assert!(outlet.inner().current.is_none(), "hung up on");
        let waited: Vec<Vec<u8>> = std::iter::from_fn(|| queue.next()).collect();
        let bytes: usize = waited.iter().map(Vec::len).sum();
        assert!(waited.len() > 10 && bytes <= QUEUE_BYTES, "{bytes}");
    }
}
