//! An answer that comes later. A request that is held for many seconds must not keep everything that was around its
//! handler alive: the handler checks, returns at once with what is left to wait for, and whoever stands outermost
//! waits for that alone. Ten thousand held requests are ten thousand of these and nothing else.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
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

/// The answer itself, waited for if need be. What was put around the first one is around it, too. While it waits, it keeps
/// the work and those headers, and nothing else.
pub async fn settle<E>(first: impl Future<Output = Result<Response, E>> + Unpin) -> Result<Response, E> {
    let (work, headers) = match First::of(first.await?) {
        First::Held(work, headers) => (work, headers),
        First::Whole(answer) => return Ok(answer),
    };
    let mut answer = work.await;
    answer.headers_mut().extend(headers.unpacked());
    Ok(answer)
}

/// Headers as they are written on the wire: a map of them would take thrice the room, and nobody looks at them while the
/// answer is held. No name and no value has a line's end within it.
struct Headers(Box<[u8]>);

impl Headers {
    fn packed(map: &HeaderMap) -> Self {
        let mut lines = Vec::new();
        for (name, value) in map {
            lines.extend_from_slice(name.as_str().as_bytes());
            lines.push(b':');
            lines.extend_from_slice(value.as_bytes());
            lines.push(b'\n');
        }
        Self(lines.into())
    }

    fn unpacked(&self) -> HeaderMap {
        let mut map = HeaderMap::new();
        for line in self.0.split(|byte| *byte == b'\n') {
            let mut parts = line.splitn(2, |byte| *byte == b':');
            if let (Some(name), Some(value)) = (parts.next(), parts.next())
                && let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
            {
                map.append(name, value);
            }
        }
        map
    }
}

/// What a handler has given.
enum First {
    /// The work that is left, and what was put around it.
    Held(Work, Headers),
    Whole(Response),
}

impl First {
    fn of(mut first: Response) -> Self {
        let work = first.extensions_mut().remove::<Later>();
        let work = work.and_then(|Later(work)| work.lock().unwrap_or_else(PoisonError::into_inner).take());
        let Some(work) = work else { return Self::Whole(first) };
        Self::Held(work, Headers::packed(first.headers()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn settled(first: Response) -> Response {
        let Ok(answer) = settle(std::future::ready(Ok::<_, std::convert::Infallible>(first))).await;
        answer
    }

    #[tokio::test]
    async fn the_real_answer_has_what_was_put_around_the_first_one() {
        let mut first = later(async { (StatusCode::ACCEPTED, "done").into_response() });
        let opaque = HeaderValue::from_bytes(b": \xff\t").expect("a value");
        for (name, value) in [
            ("around", "it".parse().expect("a value")),
            ("twice", opaque.clone()),
            ("twice", opaque),
        ] {
            first.headers_mut().append(name, value);
        }
        let around = first.headers().clone();
        let answer = settled(first).await;
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
        for name in around.keys() {
            let values = |map: &HeaderMap| map.get_all(name).iter().cloned().collect::<Vec<_>>();
            assert_eq!(values(answer.headers()), values(&around), "{name}");
        }
        let plain = settled(StatusCode::IM_A_TEAPOT.into_response()).await;
        assert_eq!(plain.status(), StatusCode::IM_A_TEAPOT);
    }

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let answer = settled(later(async { panic!("on purpose") })).await;
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
