//! The api's three listeners: for people, for nodes, for hosts that are not nodes yet.

use std::net::SocketAddr;

use anyhow::Context;
use base::App;
use tokio::net::TcpListener;

/// The listeners, bound before anything is promised: a taken port is a clear error at the start.
pub struct Ports {
    pub public: TcpListener,
    pub node: TcpListener,
    pub enrol: TcpListener,
}

impl Ports {
    pub async fn bind(app: &App) -> anyhow::Result<Self> {
        let config = &app.config;
        Ok(Self {
            public: bind(config.listen_public, "listen_public").await?,
            node: bind(config.listen_node, "listen_node").await?,
            enrol: bind(config.listen_enrol, "listen_enrol").await?,
        })
    }
}

async fn bind(address: SocketAddr, setting: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("{setting}: cannot listen on {address}"))
}
