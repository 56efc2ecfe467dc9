//! Where a stream begins: now, where an earlier one ended, or, if that is too long ago to be told without a gap, now with
//! one `reset` before everything else, upon which the reader looks at everything again.

use base::App;
use base::http::{Answer, ApiError};
use base::outbox;
use http::HeaderMap;

/// What happened longer ago than this is not told again.
const WITHIN_MS: i64 = 86_400_000;
const LAST_EVENT_ID: &str = "last-event-id";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    Now,
    After(i64),
    /// Events after this one may be gone.
    Reset(i64),
}

impl Begin {
    pub(super) fn after(self) -> Option<i64> {
        match self {
            Self::After(seq) => Some(seq),
            Self::Now | Self::Reset(_) => None,
        }
    }
}

pub(super) async fn place(app: &App, headers: &HeaderMap) -> Answer<Begin> {
    let Some(value) = headers.get(LAST_EVENT_ID) else {
        return Ok(Begin::Now);
    };
    let seq: Option<i64> = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    let seq = seq
        .filter(|seq| *seq >= 0)
        .ok_or_else(|| ApiError::field(LAST_EVENT_ID, "must be the `id:` of an event that was told here"))?;
    // Behind nothing is from the first one on.
    let written = outbox::written_at(&app.db, seq.max(1)).await?;
    // Nobody was told a number that does not exist: it is of another installation, or of a database set back.
    let young = written.is_some_and(|at| app.clock.now().since_ms(at) <= WITHIN_MS);
    let nothing_yet = seq == 0 && outbox::last_seq(&app.db).await? == 0;
    Ok(if young || nothing_yet {
        Begin::After(seq)
    } else {
        Begin::Reset(seq)
    })
}
