//! gpuaas-dev: the platform on one machine, for people who want to see it and for tests. Loopback only; no flag
//! changes that.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use dev::bench::{self, Bench};
use dev::parts::Part;
use dev::run::Wish;
use dev::soak::Soak;
use dev::state::default_dir;
use dev::torture::Torture;
use dev::{fuzz, verbs};
use host::pretend::Profile;

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
    /// What the halves of a simulated node log
    #[arg(long, global = true, hide = true, default_value = "info")]
    log: String,
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
        /// Where initdb and postgres are, if the system's are not to be used
        #[arg(long, value_name = "PATH", conflicts_with = "database_url")]
        postgres_bin_dir: Option<PathBuf>,
    },
    /// Forget everything: nodes, database, keys
    Reset {
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Say whether it runs, and where
    Status,
    /// Run for long and count what fails
    #[command(subcommand)]
    Soak(Soak),
    /// Shoot mutated documents at the code that judges them, and say what became of each
    Fuzz(fuzz::Wish),
    /// A throw-away PostgreSQL cluster for a test run; prints `ready`, ends with its parent or SIGTERM
    TestPostgres {
        /// The cluster's directory; its socket lies in `sock` below
        #[arg(long)]
        dir: PathBuf,
    },
    /// Figures with their limits; without names, all of them
    Bench {
        benches: Vec<Bench>,
        /// Where the figures are written, a file for each bench
        #[arg(long, default_value = "target/bench")]
        out: PathBuf,
        /// Where the benches work; should be a real disk
        #[arg(long, default_value = "/var/tmp")]
        scratch: PathBuf,
        /// How many nodes `scale` plays
        #[arg(long, default_value_t = 10_000)]
        nodes: u64,
    },
    /// Kill everything again and again under load, lose a tenth of all messages, and prove that nothing came of it
    Torture(Torture),
    #[command(flatten)]
    Part(Part),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let command = cli.command.unwrap_or(Command::Run {
        nodes: vec![Profile::H100x8],
        database_url: None,
        database_owner_url: None,
        postgres_bin_dir: None,
    });
    let outcome = match command {
        Command::Run {
            nodes,
            database_url,
            database_owner_url,
            postgres_bin_dir,
        } => std::env::current_exe().map_err(Into::into).and_then(|exe| {
            verbs::run(Wish {
                state_dir: cli.state,
                database_url: database_owner_url.zip(database_url),
                postgres_bin_dir,
                nodes,
                exe,
            })
        }),
        Command::Reset { yes } => verbs::reset(&cli.state, yes),
        Command::Status => verbs::status(&cli.state),
        Command::Soak(what) => what.run(),
        Command::Fuzz(wish) => Ok(fuzz::command(&wish)),
        Command::TestPostgres { dir } => verbs::test_postgres(&dir),
        Command::Torture(torture) => dev::torture::verb(&torture),
        Command::Bench {
            benches,
            out,
            scratch,
            nodes,
        } => benched(&benches, &out, scratch, nodes),
        Command::Part(part) => part.play(&cli.log),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("gpuaas-dev: {error:#}");
        ExitCode::FAILURE
    })
}

fn benched(benches: &[Bench], out: &Path, scratch: PathBuf, nodes: u64) -> anyhow::Result<ExitCode> {
    let exe = std::env::current_exe()?;
    base::logs::init_to("error", false, std::io::stderr)?;
    dev::runtime()?.block_on(bench::run(benches, &bench::Place { exe, scratch, nodes }, out))
}
