//! The provisioning worker. Several may run; each workflow is in the hands of one. It asks for tasks by the same function
//! as the api role, under the same rules, and so needs the key directory as long as it does not ask over the network.

use base::App;
use fleet::Fleet;
use tokio::task::JoinSet;
use wire::stop::Stop;

pub async fn run(app: App, stop: Stop) -> anyhow::Result<()> {
    let fleet = Fleet::open(app, stop.token()).await?;
    let mut loops = JoinSet::new();
    loops.spawn(fleet::work::follow_keys(fleet.clone()));
    allocation::work::spawn(&fleet, &mut loops);
    while let Some(ended) = loops.join_next().await {
        ended?;
        if !stop.is_stopped() {
            anyhow::bail!("a loop ended by itself");
        }
    }
    Ok(())
}
