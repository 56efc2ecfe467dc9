//! gpuaas-dev: the platform on one machine, for people who want to see it and for tests. Loopback only; no flag
//! changes that.

use std::path::PathBuf;
use std::process::ExitCode;

use base::db::managed::{Managed, Options};
use clap::{Parser, Subcommand};
use dev::run::{Ended, Wish, run};
use dev::simnode::NodeDir;
use dev::state::{StateDir, default_dir, running};
use host::pretend::Profile;
use rustix::process::{Signal, set_parent_process_death_signal};
use wire::stop::Stop;

#[derive(Parser)]
#[command(
    name = "gpuaas-dev",
    version,
    about = "The whole platform with simulated GPU hosts, on this machine",
    disable_help_subcommand = true
)]
struct Cli {
    /// Where state is kept between runs
    #[arg(long, global = true, env = "GPUAAS_DEV_STATE", default_value_os_t = default_dir())]
    state: PathBuf,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the platform until Ctrl-C (the default)
    Run {
        /// A simulated node: sim:h100x8, sim:l40sx4 or sim:cpu; repeatable
        #[arg(long = "node", default_value = "sim:h100x8")]
        nodes: Vec<Profile>,
        /// Your own PostgreSQL: the URL of the role gpuaas_app
        #[arg(long, requires = "database_owner_url")]
        database_url: Option<String>,
        /// And of the role gpuaas_owner, which migrates
        #[arg(long, requires = "database_url")]
        database_owner_url: Option<String>,
    },
    /// Forget everything: nodes, database, keys
    Reset,
    /// Say whether it runs, and where
    Status,
    /// A throw-away PostgreSQL cluster for a test run; prints `ready`, ends with its parent or SIGTERM
    TestPostgres {
        /// The cluster's directory; its socket lies in `sock` below
        #[arg(long)]
        dir: PathBuf,
    },
    #[command(hide = true)]
    Executor {
        #[arg(long)]
        dir: PathBuf,
        #[arg(long)]
        profile: Profile,
    },
    #[command(hide = true)]
    Agent {
        #[arg(long)]
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let command = cli.command.unwrap_or(Command::Run {
        nodes: vec![Profile::H100x8],
        database_url: None,
        database_owner_url: None,
    });
    let outcome = match command {
        Command::Run {
            nodes,
            database_url,
            database_owner_url,
        } => platform(cli.state, nodes, database_owner_url.zip(database_url)),
        Command::Reset => reset(&cli.state),
        Command::Status => status(&cli.state),
        Command::TestPostgres { dir } => test_postgres(&dir),
        Command::Executor { dir, profile } => executor(dir, profile),
        Command::Agent { dir } => agent(dir),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("gpuaas-dev: {error:#}");
        ExitCode::FAILURE
    })
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

fn platform(
    state_dir: PathBuf,
    nodes: Vec<Profile>,
    database_url: Option<(String, String)>,
) -> anyhow::Result<ExitCode> {
    let log_dir = state_dir.join("log");
    std::fs::create_dir_all(&log_dir)?;
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(log_dir.join("gpuaas-dev.log"))?;
    base::logs::init_to("info", true, std::sync::Mutex::new(log))?;
    base::metrics::install(&[fleet::metrics::METRICS]);
    let wish = Wish {
        state_dir: state_dir.clone(),
        database_url,
        nodes,
        exe: std::env::current_exe()?,
    };
    let ended = runtime()?.block_on(async { run(wish, Stop::on_signals()?).await })?;
    Ok(match ended {
        Ended::Stopped => ExitCode::SUCCESS,
        Ended::Already(running) => {
            let url = running.map_or_else(|| "still starting".to_owned(), |running| running.url);
            eprintln!("gpuaas-dev: already running on {}: {url}", state_dir.display());
            ExitCode::from(5)
        }
    })
}

fn reset(path: &PathBuf) -> anyhow::Result<ExitCode> {
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

fn status(path: &PathBuf) -> anyhow::Result<ExitCode> {
    if path.exists() && StateDir::take(path)?.is_none() {
        let url = running(path).map_or_else(|| "starting".to_owned(), |running| running.url);
        println!("running  {url}");
        return Ok(ExitCode::SUCCESS);
    }
    println!("not running");
    Ok(ExitCode::from(3))
}

fn test_postgres(dir: &std::path::Path) -> anyhow::Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    runtime()?.block_on(async {
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

fn child_logs() -> anyhow::Result<()> {
    // Whoever started us may be killed; then nobody is left to stop us.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    base::logs::init_to("info", true, std::io::stderr)?;
    Ok(())
}

fn executor(dir: PathBuf, profile: Profile) -> anyhow::Result<ExitCode> {
    child_logs()?;
    let options = NodeDir::new(dir)?.executor_options(profile)?;
    executor::sandbox::enter()?;
    executor::run(options, executor::Stop::new()?)?;
    Ok(ExitCode::SUCCESS)
}

fn agent(dir: PathBuf) -> anyhow::Result<ExitCode> {
    child_logs()?;
    let options = NodeDir::new(dir)?.agent_options();
    runtime()?.block_on(async { agent::run(options, Stop::on_signals()?).await })?;
    Ok(ExitCode::SUCCESS)
}
