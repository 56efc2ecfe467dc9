//! What is left for whoever asks, as every counted answer tells it: how much a full bucket holds, how much of it is left
//! and after how many quiet seconds it is full again. It tells; the bucket has decided already.

use axum::response::Response;
use http::{HeaderName, HeaderValue};
use model::signal::Code;

use crate::http::error::ApiError;

pub(in crate::http) const LIMIT: &str = "RateLimit-Limit";
pub(in crate::http) const REMAINING: &str = "RateLimit-Remaining";
pub(in crate::http) const RESET: &str = "RateLimit-Reset";

/// How one request found its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub limit: u64,
    pub remaining: u64,
    pub reset_s: u64,
    /// Set: the bucket was empty, and this long it stays so.
    pub(super) wait_s: Option<u32>,
}

impl Standing {
    pub(super) fn of(room: f64, left: f64, per_s: f64, wait_s: Option<u32>) -> Self {
        Self {
            limit: room as u64,
            remaining: left.max(0.0) as u64,
            reset_s: ((room - left) / per_s).max(0.0).ceil() as u64,
            wait_s,
        }
    }

    pub fn passed(self) -> Result<Self, ApiError> {
        match self.wait_s {
            None => Ok(self),
            Some(wait_s) => Err(ApiError::new(Code::RateLimited).retry_after_s(wait_s)),
        }
    }

    /// Of two buckets that both counted a request, the one that will refuse first.
    pub(in crate::http) fn tighter(self, other: Self) -> Self {
        let key = |one: &Self| (one.wait_s.is_none(), one.remaining);
        if key(&other) < key(&self) { other } else { self }
    }

    pub(in crate::http) fn told(self, response: &mut Response) {
        for (name, value) in [
            ("ratelimit-limit", self.limit),
            ("ratelimit-remaining", self.remaining),
            ("ratelimit-reset", self.reset_s),
        ] {
            let headers = response.headers_mut();
            headers.insert(HeaderName::from_static(name), HeaderValue::from(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_that_refuses_first_is_told() {
        let wide = Standing::of(1000.0, 999.0, 100.0, None);
        assert_eq!((wide.limit, wide.remaining, wide.reset_s), (1000, 999, 1));
        let narrow = Standing::of(10.0, 3.5, 0.1, None);
        assert_eq!((narrow.remaining, narrow.reset_s), (3, 65));
        let empty = Standing::of(50.0, 0.5, 5.0, Some(1));
        assert_eq!(wide.tighter(narrow), narrow);
        assert_eq!(narrow.tighter(wide), narrow);
        assert_eq!((narrow.tighter(empty), empty.tighter(narrow)), (empty, empty));
        assert!(narrow.passed().is_ok());
        let refused = empty.passed().expect_err("nothing is left");
        assert_eq!((refused.code, refused.retry_after_s), (Code::RateLimited, Some(1)));
    }
}
