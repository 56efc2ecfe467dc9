//! How far back the sealer looks. To look at all rows each half second would cost more than the audit itself: a busy fleet
//! writes thousands each second. What was not there at the last look is of a transaction that was open then or has begun
//! since; so each look goes back as far as the oldest of those, and by as much as clocks that are kept differ. Every few
//! looks it goes back by as much as clocks may differ; and now and then by minutes, for those that differ by more, and
//! always where it cannot be told what is open: no transaction of ours lives longer.

use time::{Duration, OffsetDateTime};

pub(super) const RECENT: Duration = Duration::minutes(3);
const KEPT_CLOCKS: Duration = Duration::milliseconds(250);
const CLOCKS: Duration = Duration::seconds(4);
const CLOCKS_EVERY: Duration = Duration::seconds(3);

/// When a look was, and for how long a transaction had been open by then.
pub(super) type Look = (OffsetDateTime, Duration);

/// The last looks, if all that was there was sealed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looked {
    last: Look,
    /// The last that went back by as much as clocks may differ.
    wide: Look,
}

impl Looked {
    /// This one, and the wide one that it followed if it was none itself.
    pub(super) fn at(last: Look, wide: Option<Look>) -> Self {
        let wide = wide.unwrap_or(last);
        Self { last, wide }
    }

    /// How far the next look goes back, and the wide one that it follows if it is none itself.
    pub(super) fn reach(self, now: OffsetDateTime) -> (Duration, Option<Look>) {
        // A clock may be set back.
        let back = |(at, open): Look, clocks: Duration| ((now - at).abs() + open + clocks).min(RECENT);
        if (now - self.wide.0).abs() >= CLOCKS_EVERY {
            return (back(self.wide, CLOCKS), None);
        }
        (back(self.last, KEPT_CLOCKS), Some(self.wide))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + Duration::milliseconds(ms)
    }

    #[test]
    fn every_moment_is_looked_at_again_once_all_clocks_have_passed_it() {
        let open = Duration::milliseconds(700);
        let mut looked = Looked::at((at(0), open), None);
        let (mut wide_to, mut narrow) = (at(0), 0);
        for n in 1..100 {
            let now = at(500 * n);
            let (reach, wide) = looked.reach(now);
            assert!(
                now - reach <= at(500 * (n - 1)) - open - KEPT_CLOCKS,
                "nothing is left out since the last"
            );
            if wide.is_none() {
                assert!(now - reach <= wide_to - open - CLOCKS, "nor since the last wide one");
                assert!(now - wide_to <= CLOCKS_EVERY);
                wide_to = now;
            } else {
                narrow += 1;
            }
            looked = Looked::at((now, open), wide);
        }
        assert!(narrow > 70, "most looks are short: {narrow}");
    }

    #[test]
    fn a_clock_that_is_set_back_leads_to_a_wide_look() {
        let looked = Looked::at((at(60_000), Duration::ZERO), None);
        let (reach, wide) = looked.reach(at(0));
        assert!(wide.is_none() && reach >= Duration::minutes(1));
    }
}
