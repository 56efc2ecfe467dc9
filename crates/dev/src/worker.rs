//! A provisioning worker in a process of its own, so that it can be killed like anybody's: the same role as `gpuaasd`'s.

use std::path::Path;
use std::process::ExitCode;

use base::config::Flags;
use base::{App, Clock};
use control::Role;
use tokio_util::task::TaskTracker;
use wire::stop::Stop;

use crate::children::{Kept, Program};
use crate::replica::Settings;

/// Starts one, and another whenever it dies.
pub fn start(exe: &Path, dir: &Path, settings: &Settings) -> std::io::Result<Kept> {
    std::fs::create_dir_all(dir)?;
    let lines = settings.iter().map(|(name, value)| format!("{name} = {value}\n"));
    std::fs::write(dir.join("gpuaasd.toml"), lines.collect::<String>())?;
    Ok(Kept::start(Program {
        exe: exe.to_owned(),
        args: vec!["worker".to_owned(), "--dir".to_owned(), dir.display().to_string()],
        log: dir.join("gpuaasd.log"),
    }))
}

/// The worker's own process.
pub fn run(dir: &Path) -> anyhow::Result<ExitCode> {
    crate::half::end_with_parent()?;
    base::cores::forbid()?;
    let mut config = Flags::default().with_file(dir.join("gpuaasd.toml")).resolve()?;
    config.dev = true;
    base::logs::init(&config)?;
    crate::runtime()?.block_on(async {
        let stop = Stop::on_signals()?;
        let app = App::open(config, Clock::real()).await?;
        let tracker = TaskTracker::new();
        app.spawn_loops(&tracker, &stop.token());
        let served = Role::ProvisioningWorker.run(app.clone(), stop.clone()).await;
        stop.trigger();
        tracker.close();
        tracker.wait().await;
        app.db.close().await;
        served?;
        Ok(ExitCode::SUCCESS)
    })
}
