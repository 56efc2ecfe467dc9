//! What a proxy did, counted as it was done: a run that lost less than it was told to has to say so.

use std::sync::atomic::{AtomicU64, Ordering};

/// As of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections taken, each of which somebody made again if it was not their first.
    pub connections: u64,
    pub refused: u64,
    /// Requests that clients began while some were to be lost, lost ones included.
    pub requests: u64,
    pub lost_requests: u64,
    /// Requests that somebody began to answer, lost answers included.
    pub answers: u64,
    pub lost_answers: u64,
    /// Connections reset on purpose, lost messages aside.
    pub resets: u64,
}

impl Counts {
    /// Of a hundred requests, how many did not arrive.
    pub fn lost_requests_pct(&self) -> f64 {
        share(self.lost_requests, self.requests)
    }

    /// Of a hundred answers, how many did not arrive.
    pub fn lost_answers_pct(&self) -> f64 {
        share(self.lost_answers, self.answers)
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            connections: self.connections + other.connections,
            refused: self.refused + other.refused,
            requests: self.requests + other.requests,
            lost_requests: self.lost_requests + other.lost_requests,
            answers: self.answers + other.answers,
            lost_answers: self.lost_answers + other.lost_answers,
            resets: self.resets + other.resets,
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    connections: AtomicU64,
    refused: AtomicU64,
    requests: AtomicU64,
    lost_requests: AtomicU64,
    answers: AtomicU64,
    lost_answers: AtomicU64,
    resets: AtomicU64,
}

impl Tally {
    pub(super) fn connected(&self) {
        one(&self.connections);
    }

    pub(super) fn refused(&self) {
        one(&self.refused);
    }

    pub(super) fn requested(&self) {
        one(&self.requests);
    }

    pub(super) fn lost_request(&self) {
        one(&self.lost_requests);
    }

    pub(super) fn answered(&self) {
        one(&self.answers);
    }

    pub(super) fn lost_answer(&self) {
        one(&self.lost_answers);
    }

    pub(super) fn reset(&self) {
        one(&self.resets);
    }

    pub(super) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Counts {
            connections: read(&self.connections),
            refused: read(&self.refused),
            // Before what they are a part of, so that more are never lost than were made.
            lost_answers: read(&self.lost_answers),
            answers: read(&self.answers),
            lost_requests: read(&self.lost_requests),
            requests: read(&self.requests),
            resets: read(&self.resets),
        }
    }
}

fn one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::SeqCst);
}
