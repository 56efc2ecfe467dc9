//! Numbers that only rise, whoever is killed when. A block of them is written down before the first one is given out;
//! a process that ends leaves the rest of its block unused.

use std::io;
use std::path::Path;

use crate::pair::Pair;

/// Enough for years of lists, and few enough for 2^33 starts.
const BLOCK: u64 = 1 << 20;
const NAME: &str = "held";
/// Two small files, written once per start.
const BYTES: usize = 4096;

#[derive(Default)]
pub(crate) struct Numbers {
    pair: Option<Pair>,
    next: u64,
    /// The first that is not ours to give.
    end: u64,
}

impl Numbers {
    pub(crate) fn next(&mut self, dir: &Path) -> io::Result<u64> {
        if self.next >= self.end {
            self.reserve(dir)?;
        }
        self.next += 1;
        Ok(self.next - 1)
    }

    fn reserve(&mut self, dir: &Path) -> io::Result<()> {
        let mut pair = match self.pair.take() {
            Some(pair) => pair,
            None => {
                let (pair, kept) = Pair::sized(dir, NAME, BYTES)?;
                let taken = kept.and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
                (self.next, self.end) = (taken.unwrap_or(1), taken.unwrap_or(1));
                pair
            }
        };
        let end = self.end + BLOCK;
        pair.write(&end.to_le_bytes())?;
        self.end = end;
        self.pair = Some(pair);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_across_starts_and_torn_writes() {
        let dir = std::env::temp_dir().join(format!("executor-numbers-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let mut last = 0;
        for start in 0..4 {
            let mut numbers = Numbers::default();
            for _ in 0..3 {
                let number = numbers.next(&dir).expect("room");
                assert!(number > last, "{number} after {last} at start {start}");
                last = number;
            }
            // The next start is killed while it writes: it has given nothing out yet, and the older file stands.
            let torn = if start % 2 == 0 { "held.b" } else { "held.a" };
            std::fs::write(dir.join(torn), vec![7; BYTES]).expect("written");
        }
        std::fs::remove_dir_all(&dir).expect("removable");
    }
}
