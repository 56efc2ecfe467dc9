//! One request under an Idempotency-Key, without its handler's knowing of it. The first change that it opens looks whether
//! the key was used before, and if it was, the handler goes no further: who was here first has the answer. The change that
//! it commits keeps the key, so that either both are there or neither is. The answer follows once it is known; in the
//! moment between, a process may die, and then it is told that the thing was done and its answer is gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use model::digest::Sha256;
use model::signal::Code;
use model::time::Timestamp;
use serde_json::{Value, json};
use sqlx::PgConnection;
use tokio::sync::Notify;

use super::{Found, Name};
use crate::db::Db;
use crate::tx::Change;

/// After so long nobody is still at an answer: every route has a deadline below.
const ANSWERED_WITHIN_S: i64 = 60;
/// As its status while the answer is not known yet.
const NOT_YET: u16 = 0;

tokio::task_local! {
    static ONCE: Arc<Once>;
}

/// What becomes of a request whose key was used before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    /// The same answer as then.
    Replay(StatusCode, String),
    Refused(Code),
}

#[derive(Debug)]
pub(crate) struct Once {
    name: Name,
    /// What is asked for, beside the body.
    about: String,
    body: Mutex<Sha256>,
    kept: AtomicBool,
    decided: Mutex<Option<Decided>>,
    told: Notify,
}

impl Once {
    pub(crate) fn new(name: Name, about: String) -> Arc<Self> {
        Arc::new(Self {
            name,
            about,
            body: Mutex::new(Sha256::of(b"")),
            kept: AtomicBool::new(false),
            decided: Mutex::default(),
            told: Notify::new(),
        })
    }

    /// Of the request that this task is answering.
    pub(crate) fn here() -> Option<Arc<Self>> {
        ONCE.try_with(Arc::clone).ok()
    }

    pub(crate) async fn scope<F: Future>(self: &Arc<Self>, work: F) -> F::Output {
        ONCE.scope(Arc::clone(self), work).await
    }

    /// The same words in another order are the same wish.
    pub(crate) fn body_is(&self, bytes: &[u8]) {
        let canonical = serde_json::from_slice(bytes).map(|mut body: Value| {
            body.sort_all_objects();
            body.to_string()
        });
        let digest = canonical.map_or_else(|_| Sha256::of(bytes), |text| Sha256::of(text.as_bytes()));
        *self.body.lock().unwrap_or_else(PoisonError::into_inner) = digest;
    }

    fn digest(&self) -> Sha256 {
        let body = *self.body.lock().unwrap_or_else(PoisonError::into_inner);
        Sha256::of(format!("{} {}", self.about, body).as_bytes())
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    /// Nothing if nobody was here before. From here to the end of the change nobody else uses this key.
    pub(crate) async fn look(&self, change: &mut Change) -> sqlx::Result<Option<Decided>> {
        let found = match self.name.look(change).await? {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(code) => return Ok(Some(Decided::Refused(code))),
        };
        Ok(Some(self.judge(&found, change.at())))
    }

    fn judge(&self, found: &Found, now: Timestamp) -> Decided {
        if found.body != self.digest().as_bytes() {
            return Decided::Refused(Code::IdempotencyKeyReused);
        }
        let status = u16::try_from(found.status).ok().filter(|status| *status != NOT_YET);
        match (status.map(StatusCode::from_u16), found.answer.as_str()) {
            (Some(Ok(status)), Some(body)) => Decided::Replay(status, body.to_owned()),
            (None, _) if Timestamp::from(found.created_at) > now.plus_s(-ANSWERED_WITHIN_S) => {
                Decided::Refused(Code::IdempotencyInFlight)
            }
            _ => Decided::Refused(Code::IdempotencyAnswerGone),
        }
    }

    /// For whoever waits for the handler, which goes no further.
    pub(crate) async fn decide(&self, decided: Decided) -> std::convert::Infallible {
        *self.decided.lock().unwrap_or_else(PoisonError::into_inner) = Some(decided);
        self.told.notify_one();
        std::future::pending().await
    }

    pub(crate) async fn decided(&self) -> Decided {
        loop {
            self.told.notified().await;
            if let Some(decided) = self.decided.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return decided;
            }
        }
    }

    /// With the effect: from now on it is known that this was done.
    pub(crate) async fn mark(&self, conn: &mut PgConnection, at: Timestamp) -> sqlx::Result<()> {
        self.name.put(conn, self.digest(), NOT_YET, &Value::Null, at).await
    }

    pub(crate) fn marked(&self) {
        self.kept.store(true, Ordering::Release);
    }

    /// The answer, for whoever asks again; without its body where that is told only once.
    pub(crate) async fn keep(&self, db: &Db, status: StatusCode, body: Option<&str>) -> sqlx::Result<()> {
        let at = db.clock().now();
        let mut tx = Db::begin(db.writer()).await?;
        self.name.forget(&mut tx).await?;
        self.name
            .put(&mut tx, self.digest(), status.as_u16(), &json!(body), at)
            .await?;
        tx.commit().await
    }
}

#[cfg(test)]
mod tests {
    use model::id::UserId;

    use super::*;

    #[test]
    fn what_was_found_decides() {
        let name = Name::new(UserId::new(), "POST /v1/things".to_owned(), "one".to_owned());
        let once = Once::new(name, "/v1/things".to_owned());
        once.body_is(br#"{"a":1,"b":{"c":2,"d":3}}"#);
        let now = Timestamp::from_millis(100_000);
        let found = |status, answer, age_s: i64| Found {
            body: once.digest().as_bytes().to_vec(),
            status,
            answer,
            created_at: now.plus_s(-age_s).into(),
        };
        once.body_is(br#"{ "b": {"d":3, "c":2}, "a": 1 }"#);
        let refused = Decided::Refused;
        for (found, decided) in [
            (
                found(201, json!("{}"), 90),
                Decided::Replay(StatusCode::CREATED, "{}".to_owned()),
            ),
            (found(0, Value::Null, 1), refused(Code::IdempotencyInFlight)),
            (found(0, Value::Null, 90), refused(Code::IdempotencyAnswerGone)),
            (found(201, Value::Null, 1), refused(Code::IdempotencyAnswerGone)),
        ] {
            assert_eq!(once.judge(&found, now), decided, "{found:?}");
        }
        let before = found(201, json!("{}"), 90);
        once.body_is(br#"{"a":2,"b":{"c":2,"d":3}}"#);
        assert_eq!(once.judge(&before, now), refused(Code::IdempotencyKeyReused));
    }
}
