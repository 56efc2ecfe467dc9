//! `gpuaas-dev torture`: the whole run on a database of its own. SIGTERM ends it early; what there is by then is judged
//! all the same. Leaves its directory behind only if something was wrong, for a person to look at.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use base::db::managed::{Managed, Options};
use clap::Args;
use wire::stop::Stop;

use super::run::{Wish, run};
use super::stage::{CERT_LIFE_S, Ground, STALE_S};
use crate::half::Planted;

#[derive(Args)]
pub struct Torture {
    /// Tasks that have to end
    #[arg(long, default_value_t = 10_000)]
    pub tasks: u64,
    /// Times that somebody is killed with kill -9
    #[arg(long, default_value_t = 5_000)]
    pub kills: u64,
    /// Seconds that it goes on at least
    #[arg(long, default_value_t = 0)]
    pub seconds: u64,
    /// Of a hundred requests, and of a hundred answers, so many are lost
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=90))]
    pub loss: u64,
    /// The same seed throws the same dice
    #[arg(long, default_value_t = 20_261)]
    pub seed: u64,
    #[arg(long, default_value_t = 6)]
    pub nodes: usize,
    /// Of these, so many are rented out as slices
    #[arg(long, default_value_t = 2)]
    pub slice_nodes: usize,
    /// On average so many milliseconds between two kills on one node
    #[arg(long, default_value_t = 1200)]
    pub kill_every_ms: u64,
    /// Times that an api process stands still for seconds, at least; 0: never
    #[arg(long, default_value_t = 20)]
    pub freezes: u64,
    /// Plant a bug that the run must find
    #[arg(long = "break")]
    pub planted: Option<Planted>,
    /// Where everything is kept while it runs [default: in the temporary directory]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Where torture.json is written
    #[arg(long, default_value = "target/bench")]
    pub out: PathBuf,
    /// Told in torture.json
    #[arg(long, default_value = "unknown")]
    pub commit: String,
}

pub fn verb(torture: &Torture) -> anyhow::Result<ExitCode> {
    let name = format!("gpuaas-torture-{}", std::process::id());
    let dir = torture.dir.clone().unwrap_or_else(|| std::env::temp_dir().join(name));
    std::fs::create_dir_all(&dir)?;
    let runtime = crate::runtime()?;
    let stop = {
        let _inside = runtime.enter();
        Stop::on_signals()?
    };
    let wish = Wish {
        stop,
        seed: torture.seed,
        tasks: torture.tasks,
        kills: torture.kills,
        at_least: Duration::from_secs(torture.seconds),
        loss_pct: torture.loss,
        kill_every: Duration::from_millis(torture.kill_every_ms),
        freezes: torture.freezes,
        ..Wish::default()
    };
    let report = runtime.block_on(async {
        let database = Managed::start(Options::new(dir.join("pg"), None)).await?;
        let ground = Ground {
            dir: dir.clone(),
            exe: std::env::current_exe()?,
            owner_url: database.owner_url(),
            app_url: database.app_url(),
            nodes: torture.nodes,
            slice_nodes: torture.slice_nodes,
            replicas: 2,
            stale_s: STALE_S,
            cert_life_s: CERT_LIFE_S,
            planted: torture.planted,
        };
        let outcome = run(&wish, &ground).await?;
        database.stop().await?;
        anyhow::Ok(outcome.report(&wish))
    })?;
    super::write(&report, &wish, torture.nodes, &torture.commit, &torture.out)?;
    if report.ok() {
        std::fs::remove_dir_all(&dir)?;
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "gpuaas-dev: not what it should be; everything is kept in {}",
        dir.display()
    );
    Ok(ExitCode::FAILURE)
}
