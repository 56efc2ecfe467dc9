//! How an executor is told to end. Stopping is a clean crash: nothing new is journalled, and what runs is resumed by
//! the next start.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Clones share it.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    asked: AtomicBool,
    /// Readable once asked, so that whoever waits for a descriptor wakes up.
    wake: OwnedFd,
}

impl Stop {
    pub fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let asked = AtomicBool::new(false);
        Ok(Self(Arc::new(Shared { asked, wake })))
    }

    pub fn stop(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        // Fails only when the counter is full, and then it is readable already.
        rustix::io::write(&self.0.wake, &1_u64.to_ne_bytes()).ok();
    }

    pub fn asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Waits this long. True: asked to stop.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.0.wake.as_fd(), PollFlags::IN)];
        let time = Timespec::try_from(time).ok();
        // Woken early or not at all, the flag is what counts.
        poll(&mut fds, time.as_ref()).ok();
        self.asked()
    }

    /// Waits until `fd` can be read. False: asked to stop.
    pub(crate) fn wait_readable(&self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        let mut fds = [
            PollFd::from_borrowed_fd(fd, PollFlags::IN),
            PollFd::from_borrowed_fd(self.0.wake.as_fd(), PollFlags::IN),
        ];
        loop {
            match poll(&mut fds, None) {
                Ok(_) => return Ok(!self.asked()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
