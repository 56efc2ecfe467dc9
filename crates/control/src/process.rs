//! The life of one `gpuaasd` process: database, application, roles, drain.

use base::config::{Config, Flags};
use base::db::managed::Managed;
use base::{App, Clock, logs, metrics};
use tokio_util::task::TaskTracker;
use wire::serve::{Limits, serve};
use wire::stop::Stop;

use crate::Role;

/// Opens the application for one piece of work and prints what it says.
pub async fn one_shot(flags: Flags, work: impl AsyncFnOnce(&App) -> anyhow::Result<String>) -> anyhow::Result<()> {
    let mut config = flags.resolve()?;
    let managed = Managed::for_config(&mut config).await?;
    let app = App::open(config, Clock::real()).await?;
    let text = work(&app).await;
    app.db.close().await;
    if let Some(managed) = managed {
        managed.stop().await?;
    }
    print!("{}", text?);
    Ok(())
}

/// Runs roles until told to stop.
pub async fn run(roles: &[Role], mut config: Config) -> anyhow::Result<()> {
    logs::init(&config)?;
    metrics::install(&[fleet::metrics::METRICS, allocation::metrics::METRICS]);
    let stop = Stop::on_signals()?;
    let files = base::open_files::raise();
    tracing::info!(files, "open files allowed");
    let managed = Managed::for_config(&mut config).await?;
    let app = App::open(config, Clock::real()).await?;
    let tracker = TaskTracker::new();
    app.spawn_loops(&tracker, &stop.token());
    let health = tokio::net::TcpListener::bind(app.config.listen_metrics).await?;
    tracker.spawn(serve(
        health,
        None,
        base::http::health_router(app.clone(), "gpuaasd"),
        Limits::default(),
        stop.clone(),
    ));
    let mut running = tokio::task::JoinSet::new();
    for role in roles {
        tracing::info!(role = role.as_str(), "role starts");
        running.spawn(role.run(app.clone(), stop.clone()));
    }
    let mut outcome = Ok(());
    while let Some(ended) = running.join_next().await {
        // A role that ends for whatever reason takes the others with it: half a control plane helps nobody.
        stop.trigger();
        outcome = outcome.and(ended.map_err(anyhow::Error::from).and_then(|result| result));
    }
    tracker.close();
    tracker.wait().await;
    app.db.close().await;
    if let Some(managed) = managed {
        managed.stop().await?;
    }
    tracing::info!("stopped");
    outcome
}
