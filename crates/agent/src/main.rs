//! gpuaas-node-agent: run, probe, version. Nothing here can change the machine; that is asked of the executor.

mod config;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use agent::Options;
use clap::Parser;
use config::{Cli, Command};
use model::node_api::{NodeProbe, PROTOCOL};
use model::text::{OneLine, one_line};
use tracing_subscriber::EnvFilter;
use wire::stop::Stop;

fn main() -> ExitCode {
    let outcome = agent::forbid_cores()
        .map_err(Into::into)
        .and_then(|()| obey(Cli::parse().command));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The last word, and whoever reads stderr may have gone.
            let last = one_line(format!("gpuaas-node-agent: {error:#}\n").as_bytes());
            std::io::stderr().write_all(&last).ok();
            ExitCode::FAILURE
        }
    }
}

fn obey(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run(places) => logs(&places.log).and_then(|()| in_runtime(run(places.options()?))),
        Command::Probe { places, json } => logs(&places.log).and_then(|()| in_runtime(probe(places.options()?, json))),
        Command::Version => print(&format!("gpuaas-node-agent {} protocol {PROTOCOL}\n", agent::VERSION)),
    }
}

/// One thread: the agent waits far more than it works.
fn in_runtime(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

async fn run(options: Options) -> anyhow::Result<()> {
    let stop = Stop::on_signals()?;
    agent::run(options, stop).await
}

async fn probe(options: Options, json: bool) -> anyhow::Result<()> {
    let Options {
        state_dir,
        executor_socket,
        overrides,
        clock,
        ..
    } = options;
    let probe = agent::probe::from_outside(&state_dir, &executor_socket, overrides, &clock).await;
    if json {
        print(&format!("{}\n", serde_json::to_string(&probe)?))
    } else {
        print(&table(&probe))
    }
}

fn table(probe: &NodeProbe) -> String {
    let api = match &probe.api.reason {
        None => format!("ok    {} ({} ms)", probe.api.url, probe.api.took_ms),
        Some(reason) => format!("FAIL  {} {reason}", probe.api.url),
    };
    let disk = match &probe.disk {
        None => "FAIL  cannot be read".to_owned(),
        Some(disk) => format!(
            "{}  {} {} % used, {} MiB free",
            if disk.writable { "ok  " } else { "FAIL" },
            disk.path,
            disk.used_percent,
            disk.free_bytes / (1024 * 1024)
        ),
    };
    let executor = if probe.executor_connected {
        "ok    listening"
    } else {
        "FAIL  not listening"
    };
    format!("api       {api}\ndisk      {disk}\nexecutor  {executor}\n")
}

fn print(text: &str) -> anyhow::Result<()> {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// JSON lines for machines, text for people.
fn logs(filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| OneLine(std::io::stderr()));
    let done = if std::io::stderr().is_terminal() {
        builder.try_init()
    } else {
        builder.json().flatten_event(true).try_init()
    };
    done.map_err(|error| anyhow::anyhow!(error))
}
