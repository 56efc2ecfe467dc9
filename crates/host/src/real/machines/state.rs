//! What libvirt says that a VM does, and the waits for what somebody has begun.

use std::time::{Duration, Instant};

use model::task::vm_power::Power;

use crate::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Off,
    Running,
    /// Not yet started, or on its way down.
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

/// `paused (starting up)`: what it does, and why.
pub(super) fn state(said: &str) -> State {
    let (does, why) = said.trim().split_once(" (").unwrap_or((said.trim(), ""));
    match does {
        "shut off" | "crashed" => State::Off,
        "paused" if why == "starting up)" => State::Between,
        // A guest that put itself to sleep, or that somebody has stopped for a while, has started once.
        "running" | "idle" | "pmsuspended" | "paused" => State::Running,
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
        let starting = Some("paused (starting up)\n");
        assert_eq!(after(&[starting, None, Some("running (booted)\n")], long), (true, 3));
        assert_eq!(after(&[starting, Some("shut off (failed)\n")], long), (false, 2));
        assert_eq!(after(&[starting], Duration::ZERO), (false, 1));
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
        let starting = "paused (starting up)";
        assert_eq!(after(&["running (booted)"], long), (true, 1, 0));
        assert_eq!(after(&["shut off (shutdown)"], long), (true, 1, 1));
        assert_eq!(after(&[starting, starting, "running (booted)"], long), (true, 3, 0));
        assert_eq!(
            after(&["in shutdown (user)", "shut off (shutdown)"], long),
            (true, 3, 1)
        );
        assert_eq!(after(&[starting], Duration::ZERO), (false, 3, 0));
        assert_eq!(
            after(&["paused (user)"], long),
            (true, 1, 0),
            "it has started, and was stopped for a while"
        );
    }
}
