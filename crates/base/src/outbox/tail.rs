//! Reads stamped events in order and hands them out in this process.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Bus, events_after, last_seq};
use crate::wake::Topic;

const SWEEP: Duration = Duration::from_secs(5);
const BATCH: i64 = 500;

impl Bus {
    /// Tails the outbox until `stop` fires, from what is newest when it starts.
    pub async fn run(self, stop: CancellationToken) {
        let mut bell = self.db.wake().subscribe(Topic::Events);
        let mut seen: Option<i64> = None;
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

    async fn hand_out(&self, seen: &mut Option<i64>) -> sqlx::Result<()> {
        let mut at = match *seen {
            Some(at) => at,
            None => last_seq(&self.db).await?,
        };
        *seen = Some(at);
        loop {
            let events = events_after(&self.db, at, BATCH).await?;
            let Some(last) = events.last() else {
                return Ok(());
            };
            at = last.seq;
            for event in events {
                // Nobody listening is fine.
                drop(self.sender.send(Arc::new(event)));
            }
            *seen = Some(at);
        }
    }
}
