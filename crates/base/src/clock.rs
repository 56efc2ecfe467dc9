//! The only place in the control plane that reads wall time. Everybody else is handed a `Clock`, so that a test can
//! stand still, jump a day or walk an hour at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use model::time::Timestamp;
use time::OffsetDateTime;

#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Milliseconds of a test clock; none reads the machine's.
    fixed: Option<Arc<AtomicI64>>,
}

impl Clock {
    pub fn real() -> Self {
        Self { fixed: None }
    }

    /// A clock that stands at `at` until it is advanced. Clones share it.
    pub fn fixed(at: Timestamp) -> Self {
        Self {
            fixed: Some(Arc::new(AtomicI64::new(at.millis()))),
        }
    }

    pub fn now(&self) -> Timestamp {
        match &self.fixed {
            Some(millis) => Timestamp::from_millis(millis.load(Ordering::SeqCst)),
            None => read_wall_time(),
        }
    }

    /// Moves a fixed clock; a real one cannot be moved, and a test that tries is wrong.
    pub fn advance(&self, millis: i64) {
        let Some(fixed) = &self.fixed else {
            panic!("only a fixed clock can be advanced");
        };
        fixed.fetch_add(millis, Ordering::SeqCst);
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads wall time")]
fn read_wall_time() -> Timestamp {
    OffsetDateTime::now_utc().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_clock_moves_only_when_told_and_clones_share_it() {
        let clock = Clock::fixed(Timestamp::from_millis(1_000));
        let other = clock.clone();
        assert_eq!(clock.now(), other.now());
        clock.advance(250);
        assert_eq!(other.now(), Timestamp::from_millis(1_250));
    }
}
