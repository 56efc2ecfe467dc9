//! The least that a long-poll server over mutual TLS can be: axum, hyper, rustls, and one request that is held. What
//! this costs per connection is the limit that ours is measured against, in the same TLS and with the same allocator.
//! It has no identity table, no sessions, no gate and no limits, and must never be given any.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::routing::{get, post};
use axum::{Json, Router};
use fleet::certificate::Ca;
use http::StatusCode;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use model::id::SessionId;
use model::node_api::{PROTOCOL, SessionAnswer};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use wire::tls::{ServerIdentity, server_config_with};

/// The one header without which a client of ours believes nothing.
const OURS: [(&str, &str); 1] = [("gpuaas-service", "bare")];

/// Serves until it is killed.
pub async fn run(keys_dir: &Path, listen: SocketAddr, hold: Duration) -> anyhow::Result<()> {
    base::open_files::raise();
    let ca = Ca::load(keys_dir)?;
    let own = ca.server(&[listen.ip().to_string()], base::Clock::real().now())?;
    let identity = ServerIdentity::new(own.chain, own.key)?;
    let tls = server_config_with(identity, Some(&[ca.tls_root().clone()]))?;
    let session = || async {
        let answer = SessionAnswer {
            session_id: SessionId::new(),
            protocol: PROTOCOL,
            heartbeat_s: 10,
            self_probe_s: 60,
        };
        (OURS, Json(answer))
    };
    let wait = move || async move {
        sleep(hold.mul_f64(1.0 + 0.25 * rand::random::<f64>())).await;
        (StatusCode::NO_CONTENT, OURS)
    };
    let router = Router::new()
        .route("/internal/v1/nodes/{id}/session", post(session))
        .route("/internal/v1/nodes/{id}/tasks/wait", get(wait));
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (tls, router) = (tls.clone(), router.clone());
        tokio::spawn(async move {
            if let Err(error) = connection(stream, tls, router).await {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
}

async fn connection(stream: TcpStream, tls: Arc<ServerConfig>, router: Router) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let stream = TlsAcceptor::from(tls).accept(stream).await?;
    http1::Builder::new()
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await?;
    Ok(())
}
