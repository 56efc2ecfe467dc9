//! Says where a request came from in the words that axum's extractors and the audit know. Behind proxies of the
//! operator's own it is the address that the outermost of them has seen; whatever a caller wrote before that is not read.

use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::extract::ConnectInfo;
use http::{HeaderMap, Request};
use hyper::body::Incoming;
use tower::util::MapRequest;
use wire::serve::Peer;

const FORWARDED: &str = "x-forwarded-for";

/// `proxies`: how many of ours a request has come through, each of which added one address to the header.
pub(super) fn told(
    router: Router,
    proxies: usize,
) -> MapRequest<Router, impl Fn(Request<Incoming>) -> Request<Incoming> + Clone + Send + 'static> {
    MapRequest::new(router, move |mut request: Request<Incoming>| {
        if let Some(peer) = request.extensions().get::<Peer>() {
            let seen = outermost(request.headers(), proxies).map(|ip| SocketAddr::new(ip, 0));
            let address = ConnectInfo(seen.unwrap_or(peer.addr));
            request.extensions_mut().insert(address);
        }
        request
    })
}

/// What the outermost of our proxies has written: so many places from the end.
fn outermost(headers: &HeaderMap, proxies: usize) -> Option<IpAddr> {
    if proxies == 0 {
        return None;
    }
    let lines = headers.get_all(FORWARDED).iter().filter_map(|line| line.to_str().ok());
    let seen: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
    let at = seen.len().checked_sub(proxies)?;
    let text = seen.get(at)?;
    // Some write the port as well.
    text.parse()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_our_own_proxies_wrote_is_read() {
        let seen = |lines: &[&str], proxies| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(FORWARDED, line.parse().expect("a value"));
            }
            outermost(&headers, proxies).map(|ip| ip.to_string())
        };
        let some = |ip: &str| Some(ip.to_owned());
        assert_eq!(seen(&["203.0.113.9"], 0), None);
        assert_eq!(seen(&["203.0.113.9"], 1), some("203.0.113.9"));
        assert_eq!(seen(&["6.6.6.6, 203.0.113.9"], 1), some("203.0.113.9"));
        assert_eq!(
            seen(&["6.6.6.6", "7.7.7.7", "203.0.113.9, 10.0.0.2"], 2),
            some("203.0.113.9")
        );
        assert_eq!(seen(&["[2001:db8::1]:443"], 1), some("2001:db8::1"));
        assert_eq!(seen(&["6.6.6.6, unknown"], 1), None);
        assert_eq!(seen(&["203.0.113.9"], 2), None, "one of ours has not written anything");
        assert_eq!(seen(&[], 1), None);
    }
}
