//! gpuaasd: the control plane. One binary, many roles; what it can be told is the enum below.

use std::process::ExitCode;

use base::config::{Config, DatabaseUrl, Flags};
use base::db::managed::{Managed, Options};
use base::{App, Clock, logs, metrics};
use clap::{Parser, Subcommand};
use control::{Role, admin, openapi};
use tokio_util::task::TaskTracker;
use wire::serve::{Limits, serve};
use wire::stop::Stop;

#[derive(Parser)]
#[command(
    name = "gpuaasd",
    version,
    about = "The control plane of gpuaas",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one role, several, or all of them, until told to stop
    Run {
        /// A role of this process; give it several times for several
        #[arg(long = "role", value_enum, required_unless_present = "all")]
        roles: Vec<Role>,
        /// Every role in one process
        #[arg(long, conflicts_with = "roles")]
        all: bool,
        #[command(flatten)]
        flags: Flags,
    },
    /// The keys that nodes trust
    #[command(subcommand)]
    Trust(Trust),
    /// People who run the platform
    #[command(subcommand)]
    Admin(Admin),
    /// Show every setting, its value and where it came from
    Config {
        #[command(flatten)]
        flags: Flags,
    },
    /// Print the OpenAPI document (public, or --node)
    Openapi {
        #[arg(long)]
        node: bool,
    },
}

#[derive(Subcommand)]
enum Trust {
    /// Make the installation's keys and its first signed documents, once
    Init {
        #[command(flatten)]
        flags: Flags,
    },
}

#[derive(Subcommand)]
enum Admin {
    /// Make the first administrator and print their token, once
    Bootstrap {
        /// The name under which the audit log will know them
        name: String,
        #[command(flatten)]
        flags: Flags,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    match runtime.block_on(dispatch(cli.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("gpuaasd: {error:#}");
    ExitCode::FAILURE
}

async fn dispatch(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run { roles, all, flags } => {
            let roles = if all { Role::ALL.to_vec() } else { roles };
            run(&roles, flags.resolve()?).await
        }
        Command::Trust(Trust::Init { flags }) => one_shot(flags, async |app| admin::trust_init(app).await).await,
        Command::Admin(Admin::Bootstrap { name, flags }) => {
            one_shot(flags, async |app| admin::bootstrap(app, &name).await).await
        }
        Command::Config { flags } => {
            for line in flags.resolve()?.explain() {
                println!("{:24} {:32} {}", line.name, line.value, line.origin);
            }
            Ok(())
        }
        Command::Openapi { node } => {
            let document = if node { openapi::node() } else { openapi::public() };
            println!("{document:#}");
            Ok(())
        }
    }
}

/// Starts the private database if the configuration asks for one, and points the configuration at it.
async fn database(config: &mut Config) -> anyhow::Result<Option<Managed>> {
    if !config.managed_postgres {
        return Ok(None);
    }
    let managed = Managed::start(Options::new(
        config.state_dir.join("pg"),
        config.postgres_bin_dir.clone(),
    ))
    .await?;
    config.database_owner_url = Some(DatabaseUrl::new(managed.owner_url()));
    config.database_url = Some(DatabaseUrl::new(managed.app_url()));
    Ok(Some(managed))
}

async fn one_shot(flags: Flags, work: impl AsyncFnOnce(&App) -> anyhow::Result<String>) -> anyhow::Result<()> {
    let mut config = flags.resolve()?;
    let managed = database(&mut config).await?;
    let app = App::open(config, Clock::real()).await?;
    let text = work(&app).await;
    app.db.close().await;
    if let Some(managed) = managed {
        managed.stop().await?;
    }
    print!("{}", text?);
    Ok(())
}

async fn run(roles: &[Role], mut config: Config) -> anyhow::Result<()> {
    logs::init(&config)?;
    metrics::install(&[fleet::metrics::METRICS]);
    let stop = Stop::on_signals()?;
    let managed = database(&mut config).await?;
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
    outcome
}
