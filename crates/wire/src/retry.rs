//! How long to wait before the next try: twice as long each time up to a ceiling, and anywhere between nothing and
//! that (full jitter), so that ten thousand nodes that lost the same server do not come back in one second.

use std::time::Duration;

use crate::stop::Stop;

/// Even the luckiest draw leaves this much, or a refusing peer would be asked in a busy loop.
const LEAST: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    ceiling: Duration,
    /// Upper end of the next draw.
    reach: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_secs(1), Duration::from_secs(60))
    }
}

impl Backoff {
    pub fn new(first: Duration, ceiling: Duration) -> Self {
        Self {
            first,
            ceiling: ceiling.max(first),
            reach: first,
        }
    }

    /// What every draw leaves at least.
    pub fn least(&self) -> Duration {
        LEAST.min(self.first)
    }

    /// The wait before the next try.
    pub fn draw(&mut self) -> Duration {
        let wait = self.reach.mul_f64(rand::random::<f64>()).max(self.least());
        self.reach = self.reach.saturating_mul(2).min(self.ceiling);
        wait
    }

    /// A try succeeded: begin anew.
    pub fn reset(&mut self) {
        self.reach = self.first;
    }

    /// Waits, unless stopped first; says whether to try again.
    pub async fn wait(&mut self, stop: &Stop) -> bool {
        let wait = self.draw();
        stop.or(tokio::time::sleep(wait)).await.is_some()
    }
}

/// `mean`, give or take `share` of it.
pub fn jittered(mean: Duration, share: f64) -> Duration {
    mean.mul_f64(1.0 + share * (2.0 * rand::random::<f64>() - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_ceiling_and_begin_anew() {
        let mut backoff = Backoff::default();
        for reach_s in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(backoff.reach, Duration::from_secs(reach_s));
            let wait = backoff.draw();
            assert!(
                wait >= LEAST && wait <= Duration::from_secs(reach_s),
                "{wait:?} of {reach_s} s"
            );
        }
        backoff.reset();
        assert_eq!(backoff.reach, Duration::from_secs(1));
    }

    #[test]
    fn draws_differ() {
        let draws: Vec<Duration> = (0..8).map(|_| Backoff::default().draw()).collect();
        assert!(draws.iter().any(|draw| *draw != draws[0]), "{draws:?}");
        let around = jittered(Duration::from_secs(100), 0.1);
        assert!(around >= Duration::from_secs(90) && around <= Duration::from_secs(110));
    }

    #[tokio::test]
    async fn a_stop_ends_the_wait() {
        let stop = Stop::new();
        stop.trigger();
        assert!(
            !Backoff::new(Duration::from_secs(3600), Duration::from_secs(3600))
                .wait(&stop)
                .await
        );
    }
}
