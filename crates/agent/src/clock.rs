//! The agent's wall clock. Everybody else is handed a `Clock`, so that a test can move a certificate's whole life
//! past in one line.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use model::time::Timestamp;

#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Milliseconds of a test's clock; none reads the machine's.
    fixed: Option<Arc<AtomicI64>>,
}

impl Clock {
    pub fn real() -> Self {
        Self::default()
    }

    /// Stands still until it is set. Clones share it.
    pub fn fixed(at: Timestamp) -> Self {
        Self {
            fixed: Some(Arc::new(AtomicI64::new(at.millis()))),
        }
    }

    /// Moves a fixed clock; the machine's is not ours to move.
    pub fn set(&self, at: Timestamp) {
        if let Some(fixed) = &self.fixed {
            fixed.store(at.millis(), Ordering::SeqCst);
        }
    }

    pub fn now(&self) -> Timestamp {
        match &self.fixed {
            Some(fixed) => Timestamp::from_millis(fixed.load(Ordering::SeqCst)),
            None => wall_time(),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place of the agent that reads wall time"
)]
fn wall_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
