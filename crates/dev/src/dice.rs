//! Random, but the same each time: whoever prints the seed can have the run again.

#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        let mut dice = Self(seed);
        // Neighbouring seeds must not begin alike.
        dice.roll(2);
        dice.roll(2);
        dice
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.next() % sides.max(1)
    }

    /// True in `percent` of a hundred throws.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    /// A dice of its own, for another thread.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next())
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn the_same_seed_throws_the_same_and_every_side_comes() {
        let throws = |seed| {
            let mut dice = Dice::new(seed);
            (0..600).map(|_| dice.roll(6)).collect::<Vec<_>>()
        };
        assert_eq!(throws(7), throws(7));
        assert_ne!(throws(7), throws(8));
        for side in 0..6 {
            let count = throws(7).iter().filter(|n| **n == side).count();
            assert!((50..150).contains(&count), "{side}: {count}");
        }
    }
}
