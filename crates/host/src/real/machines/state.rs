//! What libvirt says that a VM does, and the waits for what somebody has begun.

use std::time::{Duration, Instant};

use model::task::vm_power::Power;

use crate::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Off,
    Running,
    /// Paused, as one is while it starts; or on its way down.
    Between,
}

impl State {
    pub(super) fn power(self) -> Power {
        match self {
            State::Off => Power::Off,
            State::Running | State::Between => Power::Running,
        }
    }
}

pub(super) fn state(said: &str) -> State {
    match said.trim() {
        "shut off" | "crashed" => State::Off,
        // A guest that put itself to sleep has started once.
        "running" | "idle" | "pmsuspended" => State::Running,
        _ => State::Between,
    }
}

/// Makes one run that was seen so. What somebody has begun to start is waited for, and what was on its way down is
/// started once it is there.
pub(super) fn begin(
    seen: State,
    look: impl Fn() -> Result<State>,
    start: impl Fn() -> Result<()>,
    limit: Duration,
    pause: Duration,
) -> Result<()> {
    let late = || Error::Timeout {
        what: "the start of a VM",
        limit_s: limit.as_secs(),
    };
    match seen {
        State::Running => Ok(()),
        State::Off => start(),
        State::Between => match await_start(&look, late(), limit, pause) {
            Err(late) => match look()? {
                State::Off => start(),
                State::Running => Ok(()),
                State::Between => Err(late),
            },
            Ok(()) => Ok(()),
        },
    }
}

/// Looks until it runs. One that is off again did not start, and what cannot be asked may still be busy with it.
pub(super) fn await_start(
    look: impl Fn() -> Result<State>,
    late: Error,
    limit: Duration,
    pause: Duration,
) -> Result<()> {
    let until = Instant::now() + limit;
    loop {
        match look() {
            Ok(State::Running) => return Ok(()),
            Ok(State::Off) => return Err(late),
            Ok(State::Between) | Err(_) if Instant::now() >= until => return Err(late),
            Ok(State::Between) | Err(_) => std::thread::park_timeout(pause),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_start_that_nobody_waited_for_is_looked_at() {
        let late = || Error::ProgramTimeout {
            program: "virsh",
            limit_ms: 1,
        };
        let after = |answers: &[Option<&str>], limit| {
            let asked = Cell::new(0);
            let look = || {
                let at = asked.replace(asked.get() + 1);
                let said = answers.get(at).or(answers.last()).copied().flatten();
                said.map(state).ok_or_else(late)
            };
            let ended = await_start(look, late(), limit, Duration::ZERO);
            (ended.is_ok(), asked.get())
        };
        let long = Duration::from_secs(60);
        assert_eq!(after(&[Some("paused\n"), None, Some("running\n")], long), (true, 3));
        assert_eq!(after(&[Some("paused\n"), Some("shut off\n")], long), (false, 2));
        assert_eq!(after(&[Some("paused\n")], Duration::ZERO), (false, 1));
    }

    /// A task that was cut short while libvirt started its VM comes back and finds it half-way.
    #[test]
    fn what_is_on_its_way_has_not_started_yet() {
        let after = |answers: &[&str], limit| {
            let (asked, started) = (Cell::new(0), Cell::new(0));
            let look = || {
                let at = asked.replace(asked.get() + 1);
                Ok(state(answers.get(at).or(answers.last()).expect("an answer")))
            };
            let start = || {
                started.set(started.get() + 1);
                Ok(())
            };
            let seen = look().expect("an answer");
            (
                begin(seen, look, start, limit, Duration::ZERO).is_ok(),
                asked.get(),
                started.get(),
            )
        };
        let long = Duration::from_secs(60);
        assert_eq!(after(&["running"], long), (true, 1, 0));
        assert_eq!(after(&["shut off"], long), (true, 1, 1));
        assert_eq!(after(&["paused", "paused", "running"], long), (true, 3, 0));
        assert_eq!(after(&["in shutdown", "shut off"], long), (true, 3, 1));
        assert_eq!(after(&["paused"], Duration::ZERO), (false, 3, 0));
    }
}
