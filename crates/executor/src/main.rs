//! `gpuaas-node-executor`. What it can do is the enum in `config.rs`; what it can be asked to do over its socket is
//! `model::task`. It acts on the real machine only.

mod config;

use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use config::{Cli, Command};
use executor::{Stop, sandbox};
use model::task::TaskType;
use model::text::{OneLine, one_line};

fn main() -> ExitCode {
    // One line for a person, whatever RUST_BACKTRACE says.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let last = one_line(format!("gpuaas-node-executor: {error:#}").as_bytes());
            eprintln!("{}", String::from_utf8_lossy(&last));
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    log_to_stderr();
    match Cli::parse().command {
        Command::Run(run) => {
            let options = run.options()?;
            // Before there is any thread, and before anything from outside is read.
            sandbox::enter()?;
            // A signal simply ends the process: stopping and dying are the same to the journal.
            executor::run(options, Stop::new()?)
        }
        Command::Enroll(enroll) => {
            let (token, options, agent_state_dir) = enroll.split();
            let token = if token == "-" { from_stdin()? } else { token };
            sandbox::enter()?;
            executor::enroll(&token, &options, &agent_state_dir)?;
            println!("Trust is pinned. The agent now enrols this node; see `gpuaas node list` at the control plane.");
            Ok(())
        }
        Command::Types => {
            for task_type in TaskType::ALL {
                let spec = task_type.spec();
                println!("{} {} - {}", spec.name, spec.version, spec.summary);
            }
            Ok(())
        }
        Command::Version => {
            println!("gpuaas-node-executor {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        Command::HandOver { counter } => Ok(host::real::hand_over(&counter)?),
        Command::SandboxCheck { inside } => sandbox::check(inside),
    }
}

fn from_stdin() -> anyhow::Result<String> {
    let mut token = String::new();
    let limit = std::io::stdin().take(16 * 1024).read_to_string(&mut token);
    limit.context("read the token from standard input")?;
    Ok(token)
}

/// JSON lines for machines, text for a person at a terminal.
fn log_to_stderr() {
    let builder = tracing_subscriber::fmt()
        .with_writer(|| OneLine(std::io::stderr()))
        .with_target(false);
    if std::io::stderr().is_terminal() {
        builder.init();
    } else {
        builder.json().flatten_event(true).init();
    }
}
