//! The freezer: lets processes stand still, one at a time, for longer than leases last and callers wait, and go on as if
//! nothing had been. What they were about to do, they do then, with what they knew before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::children::Kept;
use crate::dice::Dice;

pub struct Freezer<'a> {
    pub victims: Vec<&'a Kept>,
    /// On average so long between two.
    pub pause: Duration,
    /// At least and at most so long.
    pub lasts: (Duration, Duration),
    pub dice: Dice,
}

/// What it has done so far.
#[derive(Debug, Default)]
pub struct Freezes {
    count: AtomicU64,
    longest_ms: AtomicU64,
}

impl Freezes {
    pub fn done(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    pub fn longest(&self) -> Duration {
        Duration::from_millis(self.longest_ms.load(Ordering::SeqCst))
    }

    /// Lets it stand still for so long. False: nobody was there.
    pub async fn freeze(&self, process: &Kept, lasts: Duration) -> bool {
        let began = Instant::now();
        let Some(frozen) = process.freeze() else { return false };
        tokio::time::sleep(lasts).await;
        drop(frozen);
        self.count.fetch_add(1, Ordering::SeqCst);
        self.longest_ms
            .fetch_max(began.elapsed().as_millis() as u64, Ordering::SeqCst);
        true
    }
}

impl Freezer<'_> {
    /// Until it is enough.
    pub async fn run(&mut self, freezes: &Freezes, enough: impl Fn() -> bool) {
        let (least, most) = self.lasts;
        let more_ms = most.saturating_sub(least).as_millis() as u64;
        while !self.victims.is_empty() && !enough() {
            let pause = self.dice.roll(2 * self.pause.as_millis() as u64);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let victim = self.victims[self.dice.roll(self.victims.len() as u64) as usize];
            let lasts = least + Duration::from_millis(self.dice.roll(more_ms));
            if !enough() {
                freezes.freeze(victim, lasts).await;
            }
        }
    }
}
