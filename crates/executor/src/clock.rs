//! The only place in the executor that reads wall time. Everybody else is handed a `Clock`, so that a test can stand
//! still, jump a day or go back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::UNIX_EPOCH;

use model::time::Timestamp;

#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Milliseconds of a test clock; none reads the machine's.
    fixed: Option<Arc<AtomicI64>>,
}

impl Clock {
    pub fn real() -> Self {
        Self { fixed: None }
    }

    /// A clock that stands at `at` until it is moved. Clones share it.
    pub fn fixed(at: Timestamp) -> Self {
        let fixed = Some(Arc::new(AtomicI64::new(at.millis())));
        Self { fixed }
    }

    pub fn now(&self) -> Timestamp {
        match &self.fixed {
            Some(millis) => Timestamp::from_millis(millis.load(Ordering::SeqCst)),
            None => read_wall_time(),
        }
    }

    /// Moves a fixed clock, back too; a real one cannot be moved, and a test that tries is wrong.
    pub fn advance(&self, millis: i64) {
        let Some(fixed) = &self.fixed else {
            panic!("only a fixed clock can be moved");
        };
        fixed.fetch_add(millis, Ordering::SeqCst);
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads wall time")]
fn read_wall_time() -> Timestamp {
    // A machine whose clock stands before 1970 has time zero: the floor takes over from there.
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}
