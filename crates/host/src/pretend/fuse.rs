//! The fuse: counts calls and fails a chosen one, once.

/// On which side of its effect a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    Before,
    /// It happened, but the caller is told that it did not.
    After,
}

#[derive(Debug, Default)]
pub(super) struct Fuse {
    calls: usize,
    at: Option<(usize, Blow)>,
    blown: bool,
}

impl Fuse {
    pub(super) fn count(&mut self) -> Option<Blow> {
        let call = self.calls;
        self.calls += 1;
        let (_, blow) = self.at.take_if(|(at, _)| *at == call)?;
        self.blown = true;
        Some(blow)
    }

    pub(super) fn set(&mut self, after: usize, blow: Blow) {
        self.at = Some((self.calls + after, blow));
        self.blown = false;
    }

    pub(super) fn blown(&self) -> bool {
        self.blown
    }

    pub(super) fn calls(&self) -> usize {
        self.calls
    }
}
