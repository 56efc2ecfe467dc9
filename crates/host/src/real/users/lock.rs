//! Our own lock around account changes. It is on an open file, so it ends with its holder; programs that we start
//! inherit it, so that the next one to look does not see the half work of an orphan.

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

use super::Users;
use crate::error::Doing;
use crate::{Error, Result};

const WAIT: Duration = Duration::from_secs(120);

impl Users {
    pub(super) fn lock(&self) -> Result<File> {
        let path = self.path("run/gpuaas-accounts.lock");
        let locking = || format!("lock {}", path.display());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(open(&path, flags, Mode::RUSR | Mode::WUSR).doing(locking)?);
        let until = Instant::now() + WAIT;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => pause(),
                Err(Errno::WOULDBLOCK) => {
                    return Err(Error::Timeout {
                        what: "the lock on accounts",
                        limit_s: WAIT.as_secs(),
                    });
                }
                Err(error) => return Err(error).doing(locking),
            }
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "flock has no deadline of its own, so it is polled under one"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}
