//! Times that were taken, and what is told of them: the middle, and the one that ninety-nine of a hundred stay below.

use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct Sample(Vec<Duration>);

impl Sample {
    pub fn put(&mut self, took: Duration) {
        self.0.push(took);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In milliseconds, the smallest value that `percent` of the sample does not exceed. Not a number if it is empty:
    /// no goal holds for that.
    pub fn p(&self, percent: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
        sorted
            .get(rank.saturating_sub(1))
            .map_or(f64::NAN, |took| took.as_secs_f64() * 1000.0)
    }
}

impl IntoIterator for Sample {
    type Item = Duration;
    type IntoIter = std::vec::IntoIter<Duration>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Extend<Duration> for Sample {
    fn extend<T: IntoIterator<Item = Duration>>(&mut self, times: T) {
        self.0.extend(times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let mut sample = Sample::default();
        assert!(sample.p(50.0).is_nan());
        sample.extend((1..=200).rev().map(Duration::from_millis));
        assert_eq!([sample.p(50.0), sample.p(99.0), sample.p(100.0)], [100.0, 198.0, 200.0]);
    }
}
