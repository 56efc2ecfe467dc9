//! gpuaasd: the control plane. One binary, many roles; what it can be told is the enum below.

use std::process::ExitCode;

use base::config::Flags;
use clap::{Parser, Subcommand};
use control::process::{one_shot, run};
use control::{Role, admin, offline, openapi};

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
    Admin(admin::Asked),
    /// Show every setting, its value and where it came from
    Config {
        #[command(flatten)]
        flags: Flags,
    },
    /// Print the SQL that the superuser of your own PostgreSQL runs once, before the first start
    DatabaseRoles,
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
    /// Make a manifest key in the key directory, for the next delegation, and print its public half
    ManifestKey {
        #[command(flatten)]
        flags: Flags,
    },
    /// Make a root key in a file of its own and print its public half
    RootKey {
        /// A new file; keep it off the servers
        file: std::path::PathBuf,
    },
    /// Make the operators' key for the image catalogue in a new file, to be kept off the servers; print its public half
    CatalogueKey { file: std::path::PathBuf },
    /// Where the root keys are: sign the next delegation and print it. Needs no server, no database and no network
    Delegate(Box<offline::Delegate>),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = base::cores::forbid() {
        return fail(&anyhow::Error::from(error).context("forbid core dumps"));
    }
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
    let last = model::text::one_line(format!("gpuaasd: {error:#}").as_bytes());
    eprintln!("{}", String::from_utf8_lossy(&last));
    ExitCode::FAILURE
}

async fn dispatch(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run { roles, all, flags } => {
            let roles = if all { Role::ALL.to_vec() } else { roles };
            run(&roles, flags.resolve()?).await
        }
        Command::Trust(Trust::Init { flags }) => one_shot(flags, async |app| admin::trust_init(app).await).await,
        Command::Trust(Trust::ManifestKey { flags }) => offline::manifest_key(&flags.resolve()?),
        Command::Trust(Trust::RootKey { file } | Trust::CatalogueKey { file }) => offline::new_key(&file),
        Command::Trust(Trust::Delegate(delegate)) => delegate.run(),
        Command::Admin(asked) => asked.run().await,
        Command::Config { flags } => {
            for line in flags.resolve()?.explain() {
                println!("{:24} {:32} {}", line.name, line.value, line.origin);
            }
            Ok(())
        }
        Command::DatabaseRoles => {
            print!("{}", base::db::roles::ROLES_SQL);
            Ok(())
        }
        Command::Openapi { node } => {
            let document = if node { openapi::node() } else { openapi::public() };
            println!("{document:#}");
            Ok(())
        }
    }
}
