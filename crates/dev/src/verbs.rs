//! The short verbs of `gpuaas-dev`: what it does besides running.

use std::path::Path;
use std::process::ExitCode;

use base::db::managed::{Managed, Options};
use rustix::process::{Signal, set_parent_process_death_signal};
use wire::stop::Stop;

use crate::state::{StateDir, running};

/// Forgets everything, unless it runs.
pub fn reset(path: &Path) -> anyhow::Result<ExitCode> {
    if !path.exists() {
        println!("nothing to reset: {} does not exist", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    let Some(held) = StateDir::take(path)? else {
        eprintln!("gpuaas-dev: it is running; stop it first");
        return Ok(ExitCode::from(5));
    };
    std::fs::remove_dir_all(held.path())?;
    println!("{} is gone", path.display());
    Ok(ExitCode::SUCCESS)
}

/// Exit 0 if it runs, 3 if not.
pub fn status(path: &Path) -> anyhow::Result<ExitCode> {
    if path.exists() && StateDir::take(path)?.is_none() {
        let url = running(path).map_or_else(|| "starting".to_owned(), |running| running.url);
        println!("running  {url}");
        return Ok(ExitCode::SUCCESS);
    }
    println!("not running");
    Ok(ExitCode::from(3))
}

/// A cluster for one test run. It ends with whoever started it.
pub fn test_postgres(dir: &std::path::Path) -> anyhow::Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    crate::runtime()?.block_on(async {
        let stop = Stop::on_signals()?;
        let options = Options {
            durable: false,
            ..Options::new(dir, None)
        };
        let cluster = Managed::start(options).await?;
        println!("ready");
        stop.stopped().await;
        cluster.stop().await?;
        Ok(ExitCode::SUCCESS)
    })
}
