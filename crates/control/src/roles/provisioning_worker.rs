//! The provisioning worker. Several may run; each workflow is in the hands of one. With `role_identity` it holds no
//! signing key and asks the api for every task; without, the key directory has to be here, as it is when one process
//! plays all roles.

use std::sync::Arc;

use allocation::{Worker, work};
use base::App;
use fleet::Fleet;
use fleet::apart::Apart;
use tokio::task::JoinSet;
use wire::stop::Stop;

pub async fn run(app: App, stop: Stop) -> anyhow::Result<()> {
    let mut loops = JoinSet::new();
    let worker = match app.config.role_identity.as_deref() {
        Some(given) => {
            let api = Arc::new(Apart::open(given, &app.config.state_dir, app.installation)?);
            loops.spawn(api.clone().keep_renewed(stop.token()));
            Worker::apart(app, api, stop.token())
        }
        None => {
            let fleet = Fleet::open(app, stop.token()).await?;
            loops.spawn(fleet::work::follow_keys(fleet.clone()));
            Worker::here(fleet)
        }
    };
    work::spawn(&worker, &mut loops);
    while let Some(ended) = loops.join_next().await {
        ended?;
        if !stop.is_stopped() {
            anyhow::bail!("a loop ended by itself");
        }
    }
    Ok(())
}
