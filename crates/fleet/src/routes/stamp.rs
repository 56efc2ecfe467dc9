//! What rides on every answer to a node.

use axum::Router;
use axum::response::Response;
use base::http::settle;
use http::{HeaderName, HeaderValue};
use model::node_api::header;
use tower::util::MapFutureLayer;

use crate::Fleet;

/// Around everything that a node-facing listener answers, what no route took included. This is where held requests
/// wait; so it is no middleware, which would keep room for the request meanwhile.
pub fn stamped(fleet: &Fleet, router: Router) -> Router {
    let fleet = fleet.clone();
    router.layer(MapFutureLayer::new(move |first| {
        let (fleet, answer) = (fleet.clone(), settle(Box::pin(first)));
        async move { answer.await.map(|answer: Response| stamp(&fleet, answer)) }
    }))
}

/// Time and manifest version ride on every answer, refusals and empty ones too, as of the moment when it goes out.
fn stamp(fleet: &Fleet, mut answer: Response) -> Response {
    let values = [
        (HeaderName::from_static(header::TIME), fleet.app.clock.now().to_string()),
        (
            HeaderName::from_static(header::MANIFEST),
            fleet.manifest_version().to_string(),
        ),
        (
            HeaderName::from_static(header::CATALOGUE),
            fleet.images().version().to_string(),
        ),
    ];
    for (name, value) in values {
        if let Ok(value) = HeaderValue::from_str(&value) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}
