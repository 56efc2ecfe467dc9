//! The api role: three listeners and the loops behind them. The public one is for people, the node one demands a
//! certificate of ours, the enrolment one is where a host that has none yet can call.

use std::time::Duration;

use base::http::{Shell, finish};
use base::{App, audit};
use fleet::routes::{enrol_router, node_router, stamped};
use fleet::{Fleet, work};
use tokio::task::JoinSet;
use wire::serve::{Limits, serve, serve_listed};
use wire::stop::Stop;
use wire::tls::server_config_with;

use super::address::told;
use super::ports::Ports;
use super::{certificate, public};
use crate::routes;

const SERVICE: &str = "api";

pub async fn run(app: App, stop: Stop) -> anyhow::Result<()> {
    let ports = Ports::bind(&app).await?;
    serve_on(app, ports, stop).await
}

/// Serves until told to stop; returns when every request under way was answered.
pub async fn serve_on(app: App, ports: Ports, stop: Stop) -> anyhow::Result<()> {
    let fleet = Fleet::open(app.clone(), stop.token()).await?;
    tracing::info!(
        public = %ports.public.local_addr()?,
        node = %ports.node.local_addr()?,
        enrol = %ports.enrol.local_addr()?,
        "listening"
    );
    let mut loops = JoinSet::new();
    work::spawn(&fleet, &mut loops);
    allocation::work::spawn_beside_api(&fleet, &mut loops);
    loops.spawn(audit::sealer(app.db.clone(), stop.token()));
    let identity = certificate::fresh(&fleet)?;
    loops.spawn(certificate::renew(fleet.clone(), identity.clone(), stop.clone()));
    let client_ca = [fleet.ca.tls_root().clone()];
    let node_tls = server_config_with(identity.clone(), Some(&client_ca))?;
    let enrol_tls = server_config_with(identity, None)?;
    let public_tls = public::tls(&app.config)?;
    let mut public = Shell::new(SERVICE).counted(&app.rates);
    if app.config.dev {
        public = public.loopback_only();
    }
    let public = finish(routes::public_router(&fleet), public);
    let node = stamped(&fleet, finish(node_router(&fleet), Shell::new(SERVICE)));
    let enrol = stamped(&fleet, finish(enrol_router(&fleet), Shell::new(SERVICE)));
    let read_deadline = Duration::from_secs(app.config.read_deadline_s);
    let limits = Limits::default();
    // Some files are the database's, and some are nobody's yet: connections wait before the process runs out of them.
    let files = usize::try_from(base::open_files::raise()).unwrap_or(usize::MAX);
    let limits = Limits {
        handshake_timeout: read_deadline,
        header_timeout: read_deadline,
        max_connections: limits.max_connections.min(files - files / 16),
        ..limits
    };
    let listed = fleet.connections.clone();
    let proxies = fleet.app.config.trusted_proxies.unwrap_or(0) as usize;
    let listeners = async {
        tokio::join!(
            serve(ports.public, public_tls, told(public, proxies), limits, stop.clone()),
            serve_listed(ports.node, Some(node_tls), told(node, 0), limits, stop.clone(), listed),
            serve(ports.enrol, Some(enrol_tls), told(enrol, 0), limits, stop.clone()),
        )
    };
    let (_, outcome) = tokio::join!(listeners, watch(loops, &stop));
    outcome
}

/// A loop that dies takes the process with it: half an api helps nobody, and somebody will start it again.
async fn watch(mut loops: JoinSet<()>, stop: &Stop) -> anyhow::Result<()> {
    let mut outcome = Ok(());
    while let Some(ended) = loops.join_next().await {
        if !stop.is_stopped() {
            outcome = Err(ended
                .err()
                .map_or_else(|| anyhow::anyhow!("a loop ended by itself"), Into::into));
            stop.trigger();
        }
    }
    outcome
}
