//! The agent's end of an executor's socket, as simple as can be: blocking, one message at a time.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use model::socket::{self, FromAgent, FromExecutor};

pub(super) struct Socket(UnixStream);

impl Socket {
    /// As soon as somebody listens there.
    pub(super) fn connect(path: &Path, within: Duration) -> anyhow::Result<Self> {
        let began = Instant::now();
        loop {
            match UnixStream::connect(path) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(within))?;
                    return Ok(Self(stream));
                }
                Err(error) if began.elapsed() > within => return Err(error).context("nobody listens"),
                Err(_) => std::thread::park_timeout(Duration::from_micros(200)),
            }
        }
    }

    pub(super) fn send(&mut self, message: &FromAgent) -> anyhow::Result<()> {
        Ok(self.0.write_all(&socket::encode(message)?)?)
    }

    /// The first message that fits; others are passed over.
    pub(super) fn wait<T>(&mut self, mut fits: impl FnMut(FromExecutor) -> Option<T>) -> anyhow::Result<T> {
        loop {
            let mut header = [0; 4];
            self.0.read_exact(&mut header)?;
            let mut body = vec![0; socket::body_length(header)?];
            self.0.read_exact(&mut body)?;
            if let Some(found) = fits(socket::decode(&body)?) {
                return Ok(found);
            }
        }
    }
}
