//! The only place of the command line that reads the wall clock: ages on a screen, and nothing else, depend on it.

use model::time::Timestamp;

#[expect(
    clippy::disallowed_methods,
    reason = "the one reading of the clock; everything else is passed a Timestamp"
)]
pub(crate) fn now() -> Timestamp {
    time::OffsetDateTime::now_utc().into()
}
