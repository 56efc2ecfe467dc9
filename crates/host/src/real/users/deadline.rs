//! One deadline for one verb, whatever it does on the way.

use std::time::{Duration, Instant};

use crate::{Error, Result};

#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    what: &'static str,
    limit: Duration,
    until: Instant,
}

impl Deadline {
    pub(super) fn within(limit: Duration, what: &'static str) -> Self {
        let until = Instant::now() + limit;
        Self { what, limit, until }
    }

    pub(super) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.left().is_zero() {
            let (what, limit_s) = (self.what, self.limit.as_secs());
            return Err(Error::Timeout { what, limit_s });
        }
        Ok(())
    }
}
