//! The kill scheduler: kill -9 of whatever is kept alive, at moments that dice choose, often in the middle of work. It
//! counts a kill only when somebody was there to be killed, and goes on until it has had its share or is told to stop.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::children::Kept;
use crate::dice::Dice;

/// For how long it waits for work to be under way.
const WORK_WITHIN: Duration = Duration::from_secs(1);
/// When it is, the kill comes within this time.
const WORK_LASTS_MS: u64 = 40;
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// One or more processes that die together.
pub struct Victim<'a> {
    /// Each with the kind that it is counted as.
    pub processes: Vec<(usize, &'a Kept)>,
    /// How often it is chosen, among the others.
    pub weight: u64,
}

/// A hand that kills, of several: each takes its own victims, all count together.
pub struct Hand<'a> {
    pub victims: Vec<Victim<'a>>,
    /// A file that grows whenever something happens there; most kills wait for that.
    pub watched: Option<PathBuf>,
    /// On average so long between two.
    pub pause: Duration,
    pub dice: Dice,
}

/// What all hands of a run have done so far.
#[derive(Debug)]
pub struct Kills {
    wanted: u64,
    until: Instant,
    over: AtomicBool,
    by_kind: Vec<AtomicU64>,
}

impl Kills {
    /// So many at least, and until then.
    pub fn new(wanted: u64, until: Instant, kinds: usize) -> Self {
        Self {
            wanted,
            until,
            over: AtomicBool::new(false),
            by_kind: (0..kinds).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub fn by_kind(&self) -> Vec<u64> {
        self.by_kind.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }

    pub fn done(&self) -> u64 {
        self.by_kind().iter().sum()
    }

    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    pub fn enough(&self) -> bool {
        let had_its_share = self.done() >= self.wanted && Instant::now() >= self.until;
        had_its_share || self.over.load(Ordering::SeqCst)
    }

    /// No more, however few there were.
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// May more work be begun, or are the kills too far behind it?
    pub fn keep_step(&self, begun: u64, of: u64) -> bool {
        self.enough() || begun * self.wanted <= (self.done() + self.slack()) * of
    }

    /// May somebody be killed, or is the work too far behind?
    pub fn wait_for(&self, ended: u64, of: u64) -> bool {
        self.done() * of <= ended * self.wanted + self.slack() * of
    }

    /// How far one may be ahead of the other.
    fn slack(&self) -> u64 {
        20 + self.wanted / 50
    }
}

impl Hand<'_> {
    /// Kills until there were enough. `may` says whether now is a time for it, so that kills and work keep step.
    pub async fn run(&mut self, kills: &Kills, may: impl Fn() -> bool) {
        let nobody = self.victims.iter().all(|victim| victim.weight == 0);
        while !nobody && !kills.enough() {
            let pause = self.dice.roll(2 * self.pause.as_millis() as u64);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            if !may() {
                continue;
            }
            if let Some(watched) = &self.watched
                && self.dice.chance(80)
            {
                grows(watched).await;
                // Not always right at the beginning of what it does.
                tokio::time::sleep(Duration::from_millis(self.dice.roll(WORK_LASTS_MS))).await;
            }
            self.kill(kills);
        }
    }

    fn kill(&mut self, kills: &Kills) {
        let whole = self.victims.iter().map(|victim| victim.weight).sum();
        let mut at = self.dice.roll(whole);
        for victim in &self.victims {
            if at >= victim.weight {
                at -= victim.weight;
                continue;
            }
            for (kind, process) in &victim.processes {
                if process.kill() {
                    kills.by_kind[*kind].fetch_add(1, Ordering::SeqCst);
                }
            }
            return;
        }
    }
}

/// Until it has grown, but not for long: nobody may be at work.
async fn grows(path: &Path) {
    let length = || std::fs::metadata(path).map_or(0, |file| file.len());
    let (before, began) = (length(), Instant::now());
    while length() == before && began.elapsed() < WORK_WITHIN {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
