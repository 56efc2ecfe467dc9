//! Reads stamped events in order and hands them out in this process.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Bus, events_after};
use crate::wake::Topic;

const SWEEP: Duration = Duration::from_secs(5);
const BATCH: i64 = 500;

impl Bus {
    /// Tails the outbox until `stop` fires. One per process.
    pub async fn run(self, stop: CancellationToken) {
        let mut bell = self.db.wake().subscribe(Topic::Events);
        let mut seen = self.opened_at;
        loop {
            if let Err(error) = self.hand_out(&mut seen).await {
                tracing::warn!(%error, "events cannot be read; trying again");
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = bell.look_again(SWEEP) => {}
            }
        }
    }

    async fn hand_out(&self, seen: &mut i64) -> sqlx::Result<()> {
        loop {
            let events = events_after(&self.db, *seen, BATCH).await?;
            let Some(last) = events.last() else { return Ok(()) };
            *seen = last.seq;
            for event in events {
                // Nobody listening is fine.
                drop(self.sender.send(Arc::new(event)));
            }
        }
    }
}
