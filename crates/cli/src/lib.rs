//! What a person or a script can ask of gpuaas: one enum, one match. Promises exit codes and output shapes that do
//! not change under a script's feet; refuses to do anything destructive without being told twice.

mod allocation;
mod audit;
mod auth;
mod authorities;
mod client;
mod clock;
mod completion;
mod config;
mod duration;
mod env;
mod event;
mod explain;
mod failure;
mod ids;
mod image;
mod key;
mod node;
mod once;
mod output;
mod project;
mod secret;
mod session;
mod settings;
mod sku;
mod slot;
mod task;
mod thread;
mod token;
mod trust;
mod user;
mod version;

use std::ffi::OsString;
use std::io::Write;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

pub use env::{Captured, Env, Tty};
pub use failure::Exit;

use failure::Failure;
use output::Format;
use session::Session;

/// GPU hosts as rentable capacity, from the command line.
#[derive(Parser)]
#[command(
    name = "gpuaas",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "An id is given whole, by its last six or more characters, or by name.\n\
                  Environment: GPUAAS_URL, GPUAAS_TOKEN, GPUAAS_PROFILE, GPUAAS_PROJECT, GPUAAS_CA_FILE,\n\
                  GPUAAS_CONFIG_DIR, NO_COLOR.\n\
                  Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 login needed, 5 conflict, 6 wait timed out,\n\
                  7 a check failed, 8 inconclusive, 130 interrupted."
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    noun: Noun,
}

#[derive(Args)]
#[command(next_help_heading = "Everywhere")]
struct Global {
    /// Unless told, a table on a terminal and TSV in a pipe
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// The same as `-o json`
    #[arg(long, global = true, conflicts_with = "output")]
    json: bool,
    /// Which columns, and in which order; a wrong name lists them all
    #[arg(long, global = true, value_delimiter = ',', value_name = "NAMES")]
    columns: Option<Vec<String>>,
    /// The API's address [env: GPUAAS_URL]
    #[arg(long, global = true)]
    url: Option<String>,
    /// A profile of config.toml, or of a login [env: GPUAAS_PROFILE]
    #[arg(long, global = true, value_name = "NAME")]
    profile: Option<String>,
    /// The CA of a server with a private certificate, PEM [env: GPUAAS_CA_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    ca_file: Option<std::path::PathBuf>,
}

#[derive(Subcommand)]
enum Noun {
    /// What you rent: ask for it, watch it, give it back
    #[command(subcommand, visible_alias = "alloc")]
    Allocation(allocation::Verb),
    /// Projects, who is in them, and what they may have at once
    #[command(subcommand)]
    Project(project::Verb),
    /// What can be rented, and for how much
    #[command(subcommand)]
    Sku(sku::Verb),
    /// Your SSH keys: what your machines let in
    #[command(subcommand)]
    Key(key::Verb),
    /// What happens, as it happens
    #[command(subcommand)]
    Event(event::Verb),
    /// Hosts: let them in, look at them, take them out of use
    #[command(subcommand)]
    Node(node::Verb),
    /// What one guest can have of a host: a GPU, a disk, a fabric function
    #[command(subcommand)]
    Slot(slot::Verb),
    /// What nodes were asked to do
    #[command(subcommand)]
    Task(task::Verb),
    /// What slices may be made of, signed by the operators' key
    #[command(subcommand)]
    Image(image::Verb),
    /// The keys that sign tasks: look, replace, revoke
    #[command(subcommand)]
    Trust(trust::Verb),
    /// Who did what, and proof that nobody rewrote it
    #[command(subcommand)]
    Audit(audit::Verb),
    /// API tokens: yours, and your projects'
    #[command(subcommand)]
    Token(token::Verb),
    /// People, and the platform roles they hold
    #[command(subcommand)]
    User(user::Verb),
    /// Who you are to the server
    #[command(subcommand)]
    Auth(auth::Verb),
    /// Where this program takes its settings from
    #[command(subcommand)]
    Config(settings::Verb),
    /// What a code means, whose job it is and what to do; works offline
    Explain(explain::Explain),
    /// The version of this program and of the server
    Version,
    /// A completion script for your shell
    Completion(completion::Completion),
}

/// Runs one command line (with the program's name first) and returns its exit code.
pub async fn run(args: impl IntoIterator<Item = impl Into<OsString>>, mut env: Env) -> u8 {
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return refused(&args, &error, &mut env),
    };
    let flags = config::Flags {
        output: cli.global.output.or(cli.global.json.then_some(Format::Json)),
        url: cli.global.url,
        profile: cli.global.profile,
        ca_file: cli.global.ca_file,
        login: matches!(cli.noun, Noun::Auth(auth::Verb::Login { .. })),
    };
    let wants_json = flags.output == Some(Format::Json);
    let mut session = match Session::open(flags, cli.global.columns, env) {
        Ok(session) => session,
        Err((failure, mut env)) => return ended(&failure, wants_json, false, &mut env),
    };
    let done = match cli.noun {
        Noun::Allocation(verb) => allocation::run(verb, &mut session).await,
        Noun::Project(verb) => project::run(verb, &mut session).await,
        Noun::Sku(verb) => sku::run(verb, &mut session).await,
        Noun::Key(verb) => key::run(verb, &mut session).await,
        Noun::Event(verb) => event::run(verb, &mut session).await,
        Noun::Node(verb) => node::run(verb, &mut session).await,
        Noun::Slot(verb) => slot::run(verb, &mut session).await,
        Noun::Task(verb) => task::run(verb, &mut session).await,
        Noun::Image(verb) => image::run(verb, &mut session).await,
        Noun::Trust(verb) => trust::run(verb, &mut session).await,
        Noun::Audit(verb) => audit::run(verb, &mut session).await,
        Noun::Token(verb) => token::run(verb, &mut session).await,
        Noun::User(verb) => user::run(verb, &mut session).await,
        Noun::Auth(verb) => auth::run(verb, &mut session).await,
        Noun::Config(verb) => settings::run(verb, &mut session),
        Noun::Explain(explain) => explain.run(&mut session),
        Noun::Version => version::run(&mut session).await,
        Noun::Completion(completion) => completion.run(&mut session),
    };
    match done {
        Ok(()) => Exit::Ok as u8,
        Err(failure) => {
            let (json, color) = (session.out.format == Format::Json, session.out.color);
            ended(&failure, json, color, &mut session.out.env)
        }
    }
}

/// Help and version are answers; anything else that clap says is a usage error, in our format.
fn refused(args: &[OsString], error: &clap::Error, env: &mut Env) -> u8 {
    let text = error.render().to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match env.stdout.write_all(text.as_bytes()).and_then(|()| env.stdout.flush()) {
            Ok(()) => Exit::Ok as u8,
            Err(error) => ended(&error.into(), false, false, env),
        };
    }
    let json = args
        .iter()
        .any(|arg| arg == "--json" || arg == "-ojson" || arg == "--output=json")
        || args
            .windows(2)
            .any(|pair| (pair[0] == "-o" || pair[0] == "--output") && pair[1] == "json");
    if json {
        let first = text.lines().next().unwrap_or_default();
        let failure = Failure::usage(first.trim_start_matches("error: "));
        return ended(&failure, true, false, env);
    }
    let text = text.replacen("error: ", "error[usage_invalid]: ", 1);
    say(&text, env);
    Exit::Usage as u8
}

fn ended(failure: &Failure, json: bool, color: bool, env: &mut Env) -> u8 {
    if !failure.silent {
        let text = if json {
            failure.envelope() + "\n"
        } else {
            failure.render(color && env.tty.stderr)
        };
        say(&text, env);
    }
    failure.exit as u8
}

fn say(text: &str, env: &mut Env) {
    // When stderr is gone there is nobody left to tell; the exit code still says it.
    if env.stderr.write_all(text.as_bytes()).is_ok() {
        env.stderr.flush().unwrap_or_default();
    }
}

/// The whole grammar, for completion scripts and for the tests that hold it.
pub fn grammar() -> clap::Command {
    Cli::command()
}
