//! The outbox relay. Several may run; one works, the others stand by.

use base::{App, outbox};
use wire::stop::Stop;

pub async fn run(app: App, stop: Stop) -> anyhow::Result<()> {
    outbox::relay(app.db.clone(), stop.token()).await;
    Ok(())
}
