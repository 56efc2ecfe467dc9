//! The api role: three listeners and the loops behind them. The public one is for people, the node one demands a
//! certificate of ours, the enrolment one is where a host that has none yet can call.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use base::http::{Shell, finish};
use base::{App, audit};
use fleet::{Fleet, work};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use wire::serve::{Limits, serve};
use wire::stop::Stop;
use wire::tls::{ServerIdentity, server_config_with};

use crate::routes;

const SERVICE: &str = "api";
/// Listener certificates live 30 days; half of that leaves two more tries.
const REISSUE_EVERY: Duration = Duration::from_secs(15 * 86_400);

pub async fn run(app: App, stop: Stop) -> anyhow::Result<()> {
    let ports = Ports::bind(&app).await?;
    serve_on(app, ports, stop).await
}

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

/// Serves until told to stop; returns when every request under way was answered.
pub async fn serve_on(app: App, ports: Ports, stop: Stop) -> anyhow::Result<()> {
    let fleet = Fleet::open(app.clone(), stop.token()).await?;
    let tracker = TaskTracker::new();
    work::spawn_listener_loops(&fleet, &tracker);
    work::spawn_fleet_loops(&fleet, &tracker);
    tracker.spawn(audit::sealer(app.db.clone(), stop.token()));
    let identity = listener_identity(&fleet)?;
    tracker.spawn(reissue(fleet.clone(), identity.clone(), stop.clone()));
    let client_ca = [fleet.ca.tls_root().clone()];
    let node_tls = server_config_with(identity.clone(), Some(&client_ca))?;
    let enrol_tls = server_config_with(identity, None)?;
    let mut public = Shell::new(SERVICE);
    if app.config.dev {
        public = public.loopback_only();
    }
    let public = finish(routes::public_router(&fleet), public);
    let node = finish(fleet::routes::node_router(&fleet), Shell::new(SERVICE));
    let enrol = finish(fleet::routes::enrol_router(&fleet), Shell::new(SERVICE));
    tokio::join!(
        listen(ports.public, None, public, &stop),
        listen(ports.node, Some(node_tls), node, &stop),
        listen(ports.enrol, Some(enrol_tls), enrol, &stop),
    );
    tracker.close();
    tracker.wait().await;
    Ok(())
}

async fn listen(listener: TcpListener, tls: Option<Arc<ServerConfig>>, router: Router, stop: &Stop) {
    serve(listener, tls, router, Limits::default(), stop.clone()).await;
}

fn listener_identity(fleet: &Fleet) -> anyhow::Result<Arc<ServerIdentity>> {
    let fresh = fleet.ca.server(&names(fleet), fleet.app.clock.now())?;
    Ok(ServerIdentity::new(fresh.chain, fresh.key)?)
}

/// The names that nodes call us by: what is configured, and the host of the URLs we hand out.
fn names(fleet: &Fleet) -> Vec<String> {
    let config = &fleet.app.config;
    let mut names = config.node_names.clone();
    for url in [&config.node_url, &config.enrol_url] {
        let host = url
            .parse::<http::Uri>()
            .ok()
            .and_then(|uri| uri.host().map(|h| h.trim_matches(['[', ']']).to_owned()));
        names.extend(host);
    }
    names.sort_unstable();
    names.dedup();
    names
}

async fn reissue(fleet: Fleet, identity: Arc<ServerIdentity>, stop: Stop) {
    while stop.or(tokio::time::sleep(REISSUE_EVERY)).await.is_some() {
        let replaced = fleet
            .ca
            .server(&names(&fleet), fleet.app.clock.now())
            .map_err(anyhow::Error::from)
            .and_then(|fresh| identity.replace(fresh.chain, fresh.key).map_err(Into::into));
        if let Err(error) = replaced {
            tracing::error!(error = %format!("{error:#}"), "the listener's certificate was not renewed");
        }
    }
}
