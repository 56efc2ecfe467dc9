//! Says where a request came from in the words that axum's extractors and the audit know.

use axum::Router;
use axum::extract::ConnectInfo;
use http::Request;
use hyper::body::Incoming;
use tower::util::MapRequest;
use wire::serve::Peer;

pub(super) type Telling = fn(Request<Incoming>) -> Request<Incoming>;

pub(super) fn told(router: Router) -> MapRequest<Router, Telling> {
    MapRequest::new(router, told_address)
}

fn told_address(mut request: Request<Incoming>) -> Request<Incoming> {
    if let Some(peer) = request.extensions().get::<Peer>() {
        let address = ConnectInfo(peer.addr);
        request.extensions_mut().insert(address);
    }
    request
}
