//! The only place in the control plane that reads wall time. Everybody else is handed a `Clock`, so that a test can
//! stand still, jump a day or walk an hour at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use model::time::Timestamp;
use time::OffsetDateTime;

#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    Machine,
    /// Milliseconds.
    Fixed(Arc<AtomicI64>),
    /// How many milliseconds it is ahead of the machine's.
    Wrong(Arc<AtomicI64>),
}

impl Clock {
    pub fn real() -> Self {
        Self(Source::Machine)
    }

    /// A clock that stands at `at` until it is advanced. Clones share it.
    pub fn fixed(at: Timestamp) -> Self {
        Self(Source::Fixed(Arc::new(AtomicI64::new(at.millis()))))
    }

    /// The machine's, but ahead of it by so many milliseconds; it jumps as often as they are changed.
    pub fn wrong(by_ms: Arc<AtomicI64>) -> Self {
        Self(Source::Wrong(by_ms))
    }

    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::Machine => read_wall_time(),
            Source::Fixed(millis) => Timestamp::from_millis(millis.load(Ordering::SeqCst)),
            Source::Wrong(by_ms) => read_wall_time().plus_ms(by_ms.load(Ordering::SeqCst)),
        }
    }

    /// Moves a fixed clock; another cannot be moved, and a test that tries is wrong.
    pub fn advance(&self, millis: i64) {
        match &self.0 {
            Source::Fixed(fixed) => fixed.fetch_add(millis, Ordering::SeqCst),
            Source::Machine | Source::Wrong(_) => panic!("only a fixed clock can be advanced"),
        };
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

    #[test]
    fn a_wrong_clock_jumps_and_goes_on_from_there() {
        let by_ms = Arc::new(AtomicI64::new(0));
        let clock = Clock::wrong(by_ms.clone());
        let before = clock.now();
        by_ms.store(-600_000, Ordering::SeqCst);
        assert!(before.since_ms(clock.now()) > 500_000);
    }
}
