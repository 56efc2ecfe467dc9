//! Lists: newest first, fifty at a time, and a cursor that only we can make. A cursor names its list and the last row
//! seen; it is signed, so that nobody can ask the database for a place of their own choosing.

use std::time::Duration;

use aws_lc_rs::hmac;
use data_encoding::BASE64URL_NOPAD;
use model::api;
use model::signal::Code;
use model::time::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::error::ApiError;

const LIMIT: u32 = 50;
const LIMIT_MOST: u32 = 200;
/// Longest that a reader is held.
const HOLD_MOST_S: u64 = 25;
const PLACE: usize = 8 + 16;
const TAG: usize = 16;

/// The query of every list.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// The `next` of the page before.
    pub after: Option<String>,
    /// At most this many items: 50 unless told, 200 at most.
    pub limit: Option<u32>,
}

/// The query of whoever watches one thing: a long-poll that answers when its number has grown.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangedSince {
    /// Answer once its version or revision has passed this one.
    pub changed_since: Option<i64>,
    /// But after at most so many seconds, 25 at most.
    pub wait_s: Option<u64>,
}

impl ChangedSince {
    pub fn hold(&self) -> Duration {
        Duration::from_secs(self.wait_s.unwrap_or(0).min(HOLD_MOST_S))
    }

    pub fn passed(&self, number: i64) -> bool {
        self.changed_since.is_none_or(|seen| number > seen)
    }
}

/// What a store function needs: where to go on, and how many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The last row already seen, by (time, id); none starts at the newest.
    pub after: Option<(Timestamp, Uuid)>,
    pub limit: u32,
}

impl PageQuery {
    pub fn page(&self, list: &'static str, key: &CursorKey) -> Result<Page, ApiError> {
        page(self.after.as_deref(), self.limit, list, key)
    }
}

/// The same for queries that have filters beside the page.
pub fn page(after: Option<&str>, limit: Option<u32>, list: &'static str, key: &CursorKey) -> Result<Page, ApiError> {
    let limit = limit.unwrap_or(LIMIT);
    if !(1..=LIMIT_MOST).contains(&limit) {
        return Err(ApiError::field("limit", format!("must be between 1 and {LIMIT_MOST}")));
    }
    let after = after.map(|text| key.open(list, text)).transpose()?;
    Ok(Page { after, limit })
}

impl Page {
    /// Ask the database for one more than shown: it tells whether there is a next page.
    pub fn fetch(&self) -> i64 {
        i64::from(self.limit) + 1
    }

    /// Bind these two where the query says `($1::timestamptz is null or (created_at, id) < ($1, $2))`.
    pub fn after_parts(&self) -> (Option<time::OffsetDateTime>, Option<Uuid>) {
        (self.after.map(|(at, _)| at.into()), self.after.map(|(_, id)| id))
    }

    /// Cuts the extra row off, makes the cursor and shows the rest. `place` tells where a row stands.
    pub fn answer<R, T>(
        &self,
        mut rows: Vec<R>,
        list: &'static str,
        key: &CursorKey,
        place: impl Fn(&R) -> (Timestamp, Uuid),
        show: impl FnMut(R) -> T,
    ) -> api::Page<T> {
        let more = rows.len() > self.limit as usize;
        rows.truncate(self.limit as usize);
        let next = rows.last().filter(|_| more).map(|row| {
            let (at, id) = place(row);
            key.seal(list, at, id)
        });
        api::Page {
            items: rows.into_iter().map(show).collect(),
            next,
        }
    }
}

/// Signs cursors. One key per installation, so that any replica accepts any other's.
#[derive(Clone)]
pub struct CursorKey(hmac::Key);

impl std::fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CursorKey(…)")
    }
}

impl CursorKey {
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    pub fn seal(&self, list: &'static str, at: Timestamp, id: Uuid) -> String {
        let mut bytes = Vec::with_capacity(PLACE + TAG);
        bytes.extend_from_slice(&at.millis().to_be_bytes());
        bytes.extend_from_slice(id.as_bytes());
        let tag = self.tag(list, &bytes);
        bytes.extend_from_slice(&tag);
        BASE64URL_NOPAD.encode(&bytes)
    }

    pub fn open(&self, list: &'static str, text: &str) -> Result<(Timestamp, Uuid), ApiError> {
        let invalid = || ApiError::new(Code::CursorInvalid);
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| invalid())?;
        let (place, tag) = bytes.split_at_checked(PLACE).ok_or_else(invalid)?;
        if !bool::from(subtle::ConstantTimeEq::ct_eq(tag, self.tag(list, place).as_slice())) {
            return Err(invalid());
        }
        let (at, id) = place.split_at_checked(8).ok_or_else(invalid)?;
        let at = i64::from_be_bytes(at.try_into().map_err(|_| invalid())?);
        Ok((Timestamp::from_millis(at), Uuid::from_slice(id).map_err(|_| invalid())?))
    }

    fn tag(&self, list: &str, place: &[u8]) -> [u8; TAG] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(list.as_bytes());
        context.update(&[0]);
        context.update(place);
        let mut tag = [0; TAG];
        tag.copy_from_slice(&context.sign().as_ref()[..TAG]);
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_cursors_open_and_only_for_their_list() {
        let key = CursorKey::new(&[7; 32]);
        let place = (Timestamp::from_millis(1_700_000_000_123), Uuid::now_v7());
        let text = key.seal("nodes", place.0, place.1);
        assert_eq!(key.open("nodes", &text).ok(), Some(place));
        assert!(key.open("tasks", &text).is_err());
        assert!(CursorKey::new(&[8; 32]).open("nodes", &text).is_err());
        for bad in ["", "AAAA", "not base64!", &text[..text.len() - 1], &format!("{text}A")] {
            assert!(key.open("nodes", bad).is_err(), "{bad}");
        }
        let mut forged = text.into_bytes();
        forged[3] ^= 1;
        assert!(key.open("nodes", &String::from_utf8(forged).expect("ascii")).is_err());
    }

    #[test]
    fn a_page_asks_for_one_more_and_shows_one_less() {
        let key = CursorKey::new(&[7; 32]);
        let page = PageQuery {
            after: None,
            limit: Some(2),
        }
        .page("nodes", &key)
        .expect("in range");
        assert_eq!(page.fetch(), 3);
        let place = |n: &u8| (Timestamp::from_millis(i64::from(*n)), Uuid::nil());
        let list = page.answer(vec![3, 2, 1], "nodes", &key, place, |n| n);
        assert_eq!(list.items, [3, 2]);
        let next = list.next.expect("there is more");
        assert_eq!(
            key.open("nodes", &next).ok(),
            Some((Timestamp::from_millis(2), Uuid::nil()))
        );
        assert!(page.answer(vec![1], "nodes", &key, place, |n| n).next.is_none());
        for limit in [0, 201] {
            assert!(
                PageQuery {
                    after: None,
                    limit: Some(limit)
                }
                .page("nodes", &key)
                .is_err()
            );
        }
    }
}
