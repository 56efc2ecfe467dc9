//! A small site behind `wire::serve`, on a port of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use axum::routing::get;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use wire::http::{Builder, Client};
use wire::serve::{Limits, Peer, serve};
use wire::stop::Stop;

pub(crate) struct Site {
    pub(crate) addr: SocketAddr,
    pub(crate) stop: Stop,
    pub(crate) held: Arc<Held>,
    serving: JoinHandle<()>,
    https: bool,
}

/// A request that waits until the test lets it go.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) arrived: Notify,
    pub(crate) release: Notify,
}

const SERVICE: [(&str, &str); 1] = [("gpuaas-service", "test")];

impl Site {
    pub(crate) async fn start(tls: Option<Arc<ServerConfig>>, limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let addr = listener.local_addr().expect("address");
        let (stop, held) = (Stop::new(), Arc::<Held>::default());
        let https = tls.is_some();
        let waiting = held.clone();
        let router = Router::new()
            .route("/hello", get(|| async { (SERVICE, "\"hello\"") }))
            .route(
                "/who",
                get(|Extension(peer): Extension<Peer>| async move { (SERVICE, who(&peer)) }),
            )
            .route("/large", get(|| async { (SERVICE, vec![b'x'; 2 * 1024 * 1024]) }))
            .route("/stranger", get(|| async { "a login page" }))
            .route(
                "/slow-down",
                get(|| async { (http::StatusCode::TOO_MANY_REQUESTS, [("retry-after", "77")]) }),
            )
            .route(
                "/held",
                get(move || async move {
                    waiting.arrived.notify_one();
                    waiting.release.notified().await;
                    (SERVICE, "\"released\"")
                }),
            );
        let serving = tokio::spawn(serve(listener, tls, router, limits, stop.clone()));
        Self {
            addr,
            stop,
            held,
            serving,
            https,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!(
            "{}://localhost:{}",
            if self.https { "https" } else { "http" },
            self.addr.port()
        )
    }

    /// Dials this site by address whatever the name resolves to.
    pub(crate) fn client(&self) -> Builder {
        let builder = Client::builder(&self.url()).expect("url");
        builder
            .resolve(Some("127.0.0.1"))
            .expect("address")
            .timeout(Duration::from_secs(10))
    }

    /// Until `serve` has returned.
    pub(crate) async fn ended(self) {
        self.serving.await.expect("serve does not panic");
    }
}

fn who(peer: &Peer) -> String {
    let name = peer
        .certificate
        .as_ref()
        .and_then(|certificate| certificate.spiffe.as_ref());
    format!("\"{}\"", name.map(ToString::to_string).unwrap_or_default())
}
