//! The certificate that node-facing listeners present: made at the start, renewed while they listen, its key never on
//! a disk.

use std::sync::Arc;
use std::time::Duration;

use fleet::Fleet;
use wire::stop::Stop;
use wire::tls::ServerIdentity;

/// Listener certificates live 30 days; half of that leaves room for many more tries.
const RENEW_EVERY: Duration = Duration::from_secs(15 * 86_400);
const RETRY_EVERY: Duration = Duration::from_secs(3600);

pub(super) fn fresh(fleet: &Fleet) -> anyhow::Result<Arc<ServerIdentity>> {
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

pub(super) async fn renew(fleet: Fleet, identity: Arc<ServerIdentity>, stop: Stop) {
    let mut pause = RENEW_EVERY;
    while stop.or(tokio::time::sleep(pause)).await.is_some() {
        let replaced = fleet
            .ca
            .server(&names(&fleet), fleet.app.clock.now())
            .map_err(anyhow::Error::from)
            .and_then(|fresh| identity.replace(fresh.chain, fresh.key).map_err(Into::into));
        pause = match replaced {
            Ok(()) => RENEW_EVERY,
            Err(error) => {
                tracing::error!(error = %format!("{error:#}"), "the listener's certificate was not renewed");
                RETRY_EVERY
            }
        };
    }
}
