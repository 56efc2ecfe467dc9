//! What was seen, in order, and waiting for what is to be seen.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

#[derive(Clone, Default)]
pub(crate) struct Journal {
    seen: Arc<Mutex<Vec<String>>>,
    more: Arc<Notify>,
}

impl Journal {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.seen.lock().expect("journal").push(what.into());
        self.more.notify_waiters();
    }

    pub(crate) fn count(&self, prefix: &str) -> usize {
        self.lines(prefix).len()
    }

    pub(crate) fn lines(&self, prefix: &str) -> Vec<String> {
        let seen = self.seen.lock().expect("journal");
        seen.iter().filter(|line| line.starts_with(prefix)).cloned().collect()
    }

    /// Until `prefix` was seen at least `times` times; fails with everything that was seen instead.
    pub(crate) async fn until(&self, prefix: &str, times: usize) {
        let look = async {
            loop {
                let more = self.more.notified();
                tokio::pin!(more);
                more.as_mut().enable();
                if self.count(prefix) >= times {
                    return;
                }
                more.await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(20), look).await.is_err() {
            panic!(
                "{times} times {prefix:?} not seen in {:#?}",
                self.seen.lock().expect("journal")
            );
        }
    }

    /// Did `first` come before `second`?
    pub(crate) fn in_order(&self, first: &str, second: &str) -> bool {
        let seen = self.seen.lock().expect("journal");
        let at = |prefix: &str| seen.iter().position(|line| line.starts_with(prefix));
        matches!((at(first), at(second)), (Some(first), Some(second)) if first < second)
    }
}
