//! Points in time as every document of ours writes them: RFC 3339, UTC, milliseconds. Reading the clock is
//! somebody else's job; here time is only ever passed in.

use std::fmt;
use std::str::FromStr;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A moment, cut to the millisecond so that it survives JSON and Postgres unchanged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    pub const fn plus_s(self, seconds: i64) -> Self {
        Self(self.0 + seconds * 1000)
    }

    pub const fn plus_ms(self, millis: i64) -> Self {
        Self(self.0 + millis)
    }

    /// Milliseconds from `earlier` to here; negative if `earlier` is later.
    pub const fn since_ms(self, earlier: Timestamp) -> i64 {
        self.0 - earlier.0
    }

    pub fn datetime(self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }
}

impl From<OffsetDateTime> for Timestamp {
    fn from(at: OffsetDateTime) -> Self {
        let millis = at.unix_timestamp_nanos().div_euclid(1_000_000);
        Self(i64::try_from(millis).unwrap_or(i64::MAX))
    }
}

impl From<Timestamp> for OffsetDateTime {
    fn from(at: Timestamp) -> Self {
        at.datetime()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.datetime();
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            at.year(),
            u8::from(at.month()),
            at.day(),
            at.hour(),
            at.minute(),
            at.second(),
            at.millisecond()
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time between the years 1970 and 9999")]
pub struct TimestampError;

impl FromStr for Timestamp {
    type Err = TimestampError;
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let at = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| TimestampError)?;
        if at.unix_timestamp() < 0 {
            return Err(TimestampError);
        }
        Ok(at.into())
    }
}

crate::text_serde!(
    Timestamp,
    "Timestamp",
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}.*$"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_one_way() {
        let at: Timestamp = "2026-11-15T10:00:00.1239+01:00".parse().expect("valid");
        assert_eq!(at.to_string(), "2026-11-15T09:00:00.123Z");
        assert_eq!(at.to_string().parse(), Ok(at));
        assert!("yesterday".parse::<Timestamp>().is_err());
        assert!("1969-12-31T23:59:59Z".parse::<Timestamp>().is_err());
    }
}
