//! An answer that comes later. A request that is held for many seconds must not keep everything that was around its
//! handler alive: the handler checks, returns at once with what is left to wait for, and whoever stands outermost
//! waits for that alone. Ten thousand held requests are ten thousand of these and nothing else.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::StatusCode;
use model::signal::Code;

use super::error::ApiError;
use super::shell::in_correlation;

type Work = Pin<Box<dyn Future<Output = Response> + Send>>;

/// In the extensions of a first answer. Extensions can be cloned; the work is done once.
#[derive(Clone)]
struct Later(Arc<Mutex<Option<Work>>>);

/// A first answer, which only `settle` can turn into the real one. A panic on the way is an answer too.
pub fn later(work: impl Future<Output = Response> + Send + 'static) -> Response {
    let work = in_correlation(AssertUnwindSafe(work).catch_unwind()).map(|done| {
        done.unwrap_or_else(|_| {
            tracing::error!("a held request panicked");
            ApiError::new(Code::Internal).into_response()
        })
    });
    let mut first = StatusCode::NO_CONTENT.into_response();
    first
        .extensions_mut()
        .insert(Later(Arc::new(Mutex::new(Some(Box::pin(work))))));
    first
}

/// The answer itself, waited for if need be. What was put around the first one is around it, too.
pub async fn settle(mut first: Response) -> Response {
    let Some(Later(work)) = first.extensions_mut().remove() else {
        return first;
    };
    let Some(work) = work.lock().unwrap_or_else(PoisonError::into_inner).take() else {
        return first;
    };
    // A map has room to grow that nobody needs while it is held.
    let headers: Box<[_]> = std::mem::take(first.headers_mut()).into_iter().collect();
    drop(first);
    let mut answer = work.await;
    answer.headers_mut().extend(headers);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_real_answer_has_what_was_put_around_the_first_one() {
        let mut first = later(async { (StatusCode::ACCEPTED, "done").into_response() });
        first.headers_mut().insert("around", "it".parse().expect("a value"));
        let answer = settle(first).await;
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
        assert_eq!(answer.headers()["around"], "it");
        let plain = settle(StatusCode::IM_A_TEAPOT.into_response()).await;
        assert_eq!(plain.status(), StatusCode::IM_A_TEAPOT);
    }

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let answer = settle(later(async { panic!("on purpose") })).await;
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
