//! The short verbs of `gpuaas-dev`: what it does besides running.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;

use base::db::managed::{Managed, Options};
use model::api::{NodeView, Page};
use rustix::process::{Signal, set_parent_process_death_signal};
use wire::stop::Stop;

use crate::api::{Api, Refused};
use crate::run::{Ended, Wish};
use crate::state::{StateDir, running};

/// The platform itself, until Ctrl-C; its log goes to a file, what it says to the person stays on the terminal.
pub fn run(wish: Wish) -> anyhow::Result<ExitCode> {
    base::cores::forbid()?;
    let state_dir = wish.state_dir.clone();
    let log_dir = state_dir.join("log");
    std::fs::create_dir_all(&log_dir)?;
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(log_dir.join("gpuaas-dev.log"))?;
    base::logs::init_to("info", true, std::sync::Mutex::new(log))?;
    base::metrics::install(&[fleet::metrics::METRICS, allocation::metrics::METRICS]);
    let ended = crate::runtime()?.block_on(async { crate::run::run(wish, Stop::on_signals()?).await })?;
    Ok(match ended {
        Ended::Stopped => ExitCode::SUCCESS,
        Ended::Already(running) => {
            let url = running.map_or_else(|| "still starting".to_owned(), |running| running.url);
            eprintln!("gpuaas-dev: already running on {}: {url}", state_dir.display());
            ExitCode::from(5)
        }
    })
}

/// Forgets everything, unless it runs. A person at a terminal is asked first; elsewhere the flag is the answer.
pub fn reset(path: &Path, yes: bool) -> anyhow::Result<ExitCode> {
    if !path.exists() {
        println!("nothing to reset: {} does not exist", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    let Some(held) = StateDir::take(path)? else {
        eprintln!("gpuaas-dev: it is running; stop it first");
        return Ok(ExitCode::from(5));
    };
    let asked = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !yes && !asked {
        eprintln!(
            "gpuaas-dev: this would {}; nobody is here to ask\n  hint: add --yes if you mean it",
            forgetting(path)
        );
        return Ok(ExitCode::from(2));
    }
    if !yes && !agreed(path)? {
        eprintln!("gpuaas-dev: not confirmed; nothing was done\n  hint: answer y, or add --yes");
        return Ok(ExitCode::from(2));
    }
    std::fs::remove_dir_all(held.path())?;
    println!("{} is gone", path.display());
    Ok(ExitCode::SUCCESS)
}

fn agreed(path: &Path) -> std::io::Result<bool> {
    eprint!("This will {}. Go on? [y/N] ", forgetting(path));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn forgetting(path: &Path) -> String {
    format!("forget every node, task and key under {}", path.display())
}

/// Exit 0 if it runs, 3 if not.
pub fn status(path: &Path) -> anyhow::Result<ExitCode> {
    if !path.exists() || StateDir::take(path)?.is_some() {
        println!("not running");
        return Ok(ExitCode::from(3));
    }
    let Some(running) = running(path) else {
        println!("starting");
        return Ok(ExitCode::SUCCESS);
    };
    println!("running  {}", running.url);
    println!("process  {}", running.pid);
    println!("logs     {}", path.join("log").display());
    let api = Api::new(&running.url, &running.token)?;
    let nodes: anyhow::Result<Page<NodeView>> = crate::runtime()?.block_on(api.get("/v1/nodes?limit=200"));
    match nodes {
        Ok(nodes) => nodes.items.iter().for_each(|node| println!("node     {}", about(node))),
        Err(error) if error.is::<Refused>() => {
            println!("its API answers, and refuses the token of this start: {error:#}")
        }
        Err(error) => println!("its API does not answer: {error:#}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn about(node: &NodeView) -> String {
    let why = node.waiting.as_ref().map(|waiting| format!(": {}", waiting.reason));
    let simulated = if node.simulated { " SIMULATED" } else { "" };
    format!("{}{simulated} {}{}", node.name, node.state, why.unwrap_or_default())
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
