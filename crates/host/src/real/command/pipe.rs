//! What a program says.

use std::os::fd::OwnedFd;

pub(super) struct Said {
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// What a program writes, as much of it as is kept.
pub(super) struct Pipe {
    pub open: Option<OwnedFd>,
    pub kept: Vec<u8>,
    limit: usize,
}

impl Pipe {
    pub(super) fn new(open: Option<OwnedFd>, limit: usize) -> Self {
        let kept = Vec::new();
        Self { open, kept, limit }
    }

    pub(super) fn read_some(&mut self) -> std::io::Result<()> {
        let mut chunk = [0; 4096];
        let Some(open) = &self.open else { return Ok(()) };
        let read = rustix::io::read(open, &mut chunk)?;
        let room = self.limit.saturating_sub(self.kept.len()).min(read);
        self.kept.extend_from_slice(&chunk[..room]);
        if read == 0 {
            self.open = None;
        }
        Ok(())
    }
}
