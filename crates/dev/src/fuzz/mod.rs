//! Mutated documents by the million, against the code that judges them: tasks at a node, the documents of trust,
//! intents, results, frames on the executor's socket, journals. A shot counts as accepted when it is believed although
//! its signed bytes are others than the honest ones, or when a task would run that must not. Seeded, so that a hit can
//! be had again.

mod bytes;
mod forge;
mod house;
mod slices;
mod targets;
mod tree;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use forge::{Forge, Shot};
use house::House;

use crate::dice::Dice;

/// What a person asks for.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Wish {
    /// Mutated tasks; every other kind of document gets a hundredth of it
    #[arg(long, default_value_t = 1_000_000)]
    pub count: u64,
    /// The same seed shoots in the same way
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// What became of one shot.
enum Fate {
    /// With the word of its refusal.
    Refused(&'static str),
    /// Believed, and it says nothing but what was honestly signed: white space, for example.
    Same,
    Accepted(String),
}

/// What became of all of them.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Mutated documents that said something else than the honest one.
    pub shots: u64,
    /// Mutations that changed nothing of what was signed; not counted above.
    pub same: u64,
    pub reached_signature: u64,
    pub wrong_key: u64,
    pub by_code: BTreeMap<&'static str, u64>,
    pub by_mutation: BTreeMap<&'static str, u64>,
    /// How each was made, and its bytes.
    pub accepted: Vec<String>,
    pub panics: Vec<String>,
}

/// What is shot at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Task,
    Trust,
    Intent,
    Result,
    Frame,
    Journal,
}

impl Target {
    pub const ALL: [Target; 6] = [
        Self::Task,
        Self::Trust,
        Self::Intent,
        Self::Result,
        Self::Frame,
        Self::Journal,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Trust => "trust",
            Self::Intent => "intent",
            Self::Result => "result",
            Self::Frame => "frame",
            Self::Journal => "journal",
        }
    }
}

/// Shoots `count` times at one target, on every core.
pub fn fuzz(target: Target, count: u64, seed: u64) -> Tally {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let mut dice = Dice::new(seed);
    let gunners: Vec<_> = (0..cores)
        .map(|n| {
            let (dice, share) = (dice.fork(), count / cores + u64::from(n < count % cores));
            thread::spawn(move || shoot(target, share, dice))
        })
        .collect();
    let mut all = Tally::default();
    for gunner in gunners {
        match gunner.join() {
            Ok(tally) => all.add(tally),
            Err(_) => all.panics.push("a thread died outside of any shot".to_owned()),
        }
    }
    all
}

/// Exit 0 if nothing was accepted and nothing broke.
pub fn command(wish: &Wish) -> ExitCode {
    let (count, seed) = (wish.count, wish.seed);
    let mut ok = true;
    for target in Target::ALL {
        let count = if target == Target::Task {
            count
        } else {
            (count / 100).max(1)
        };
        let began = Instant::now();
        let tally = fuzz(target, count, seed);
        println!(
            "{} (seed {seed}, {:.1} s): {tally}",
            target.as_str(),
            began.elapsed().as_secs_f64()
        );
        ok &= tally.ok() && tally.shots == count && (target != Target::Task || tally.convincing());
    }
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn shoot(target: Target, count: u64, mut dice: Dice) -> Tally {
    let house = House::new(&mut dice);
    let mut range = targets::range(target, &house);
    let mut forge = Forge { house: &house, dice };
    let mut tally = Tally::default();
    while tally.shots < count && tally.same <= count {
        let (shot, fate) = {
            let shot = range.aim(&mut forge);
            let fate = catch_unwind(AssertUnwindSafe(|| range.fire(&shot)));
            (shot, fate)
        };
        tally.note(&shot, range.reached(), fate);
    }
    tally
}

impl Tally {
    fn note(&mut self, shot: &Shot, reached: bool, fate: thread::Result<Fate>) {
        let told = || format!("{}: {}", shot.how, String::from_utf8_lossy(&shot.bytes));
        match fate {
            Ok(Fate::Same) if shot.forged => self.accepted.push(format!("believed: {}", told())),
            Ok(Fate::Same) => {
                self.same += 1;
                return;
            }
            Ok(Fate::Refused(code)) => {
                *self.by_code.entry(code).or_default() += 1;
                if !shot.codes.is_empty() && !shot.codes.iter().any(|right| right.as_str() == code) {
                    self.accepted
                        .push(format!("refused for the wrong reason, {code}: {}", told()));
                }
            }
            Ok(Fate::Accepted(why)) => self.accepted.push(format!("{why}: {}", told())),
            Err(_) => self.panics.push(told()),
        }
        self.shots += 1;
        self.reached_signature += u64::from(reached);
        self.wrong_key += u64::from(shot.wrong_key);
        *self.by_mutation.entry(shot.how).or_default() += 1;
    }

    fn add(&mut self, other: Self) {
        self.shots += other.shots;
        self.same += other.same;
        self.reached_signature += other.reached_signature;
        self.wrong_key += other.wrong_key;
        for (code, count) in other.by_code {
            *self.by_code.entry(code).or_default() += count;
        }
        for (how, count) in other.by_mutation {
            *self.by_mutation.entry(how).or_default() += count;
        }
        self.accepted.extend(other.accepted);
        self.panics.extend(other.panics);
    }

    /// Percent of the shots.
    pub fn share(&self, count: u64) -> f64 {
        count as f64 * 100.0 / self.shots.max(1) as f64
    }

    pub fn ok(&self) -> bool {
        self.accepted.is_empty() && self.panics.is_empty()
    }

    /// Did enough of it get past the doorstep to prove anything?
    pub fn convincing(&self) -> bool {
        self.share(self.reached_signature) >= 30.0 && self.share(self.wrong_key) >= 10.0
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "{} mutated, {} accepted, {} panics; {:.1} % reached the signature, {:.1} % well signed by a wrong key; {} said the same",
            self.shots,
            self.accepted.len(),
            self.panics.len(),
            self.share(self.reached_signature),
            self.share(self.wrong_key),
            self.same,
        )?;
        for (code, count) in &self.by_code {
            writeln!(f, "  {code:<28} {count:>9}")?;
        }
        for (how, count) in &self.by_mutation {
            writeln!(f, "    by {how:<36} {count:>9}")?;
        }
        for hit in self.accepted.iter().chain(&self.panics).take(5) {
            writeln!(f, "  HIT {hit:.2000}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::targets::Range;
    use super::*;

    #[test]
    fn nothing_mutated_is_accepted_and_the_attack_is_real() {
        let tally = fuzz(Target::Task, 4_000, 7);
        assert!(tally.ok() && tally.convincing(), "{tally}");
        assert_eq!(tally.shots, 4_000);
        assert_eq!(tally.by_code.values().sum::<u64>(), tally.shots);
        let met = |code: &str| tally.by_code.contains_key(code);
        let codes = [
            "wrong_node",
            "wrong_epoch",
            "key_unknown",
            "key_not_usable",
            "start_by_passed",
            "params_invalid",
        ];
        assert!(codes.into_iter().all(met), "{tally}");
        for target in Target::ALL.into_iter().filter(|target| *target != Target::Task) {
            let tally = fuzz(target, 300, 7);
            assert!(tally.ok() && tally.shots == 300, "{}: {tally}", target.as_str());
        }
    }

    #[test]
    fn the_same_seed_shoots_the_same() {
        let of = |seed| fuzz(Target::Intent, 200, seed).to_string();
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }

    #[test]
    fn a_judge_who_believes_everything_is_found_out() {
        let mut dice = Dice::new(5);
        let house = House::new(&mut dice);
        let mut range = targets::gullible(&house);
        let mut forge = Forge { house: &house, dice };
        let mut tally = Tally::default();
        for _ in 0..200 {
            let shot = range.aim(&mut forge);
            let fate = range.fire(&shot);
            tally.note(&shot, false, Ok(fate));
        }
        assert!(tally.accepted.len() > 50 && !tally.ok(), "{tally}");
    }
}
