//! One half of a simulated node, in a process of its own: the same code as the production binaries, on a pretended
//! host. Hidden from `--help`: people start nodes, not halves.

use std::path::PathBuf;
use std::process::ExitCode;

use host::pretend::{Pretend, Profile};
use rustix::process::{Signal, set_parent_process_death_signal};
use wire::stop::Stop;

use crate::simnode::NodeDir;

pub(crate) fn child_logs() -> anyhow::Result<()> {
    // Whoever started us may be killed; then nobody is left to stop us.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    base::logs::init_to("info", true, std::io::stderr)?;
    Ok(())
}

/// Anything else that runs in a process of its own and ends with its parent.
pub fn child(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<ExitCode> {
    child_logs()?;
    crate::runtime()?.block_on(work)?;
    Ok(ExitCode::SUCCESS)
}

pub fn executor(dir: PathBuf, profile: Profile, planted: Option<Planted>) -> anyhow::Result<ExitCode> {
    child_logs()?;
    let dir = NodeDir::new(dir)?;
    let mut options = dir.executor_options(profile)?;
    match planted {
        None => {}
        Some(Planted::NoJournal) => forget_journal(&dir)?,
        Some(Planted::NoEffects) => options.host = Pretend::in_memory(profile).host(),
    }
    ::executor::sandbox::enter()?;
    ::executor::run(options, ::executor::Stop::new()?)?;
    Ok(ExitCode::SUCCESS)
}

/// A bug that a torture run must find. Planted around the executor, never in it: production binaries cannot have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Planted {
    /// At every start the executor has forgotten what it took, did and owes.
    NoJournal,
    /// What it does never reaches the machine, and it says that it did.
    NoEffects,
}

impl Planted {
    pub const fn as_str(self) -> &'static str {
        match self {
            Planted::NoJournal => "no-journal",
            Planted::NoEffects => "no-effects",
        }
    }
}

fn forget_journal(dir: &NodeDir) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir.executor())? {
        let path = entry?.path();
        let is_journal = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"journal"));
        if is_journal && path.is_file() {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

pub fn agent(dir: PathBuf) -> anyhow::Result<ExitCode> {
    child_logs()?;
    let options = NodeDir::new(dir)?.agent_options();
    crate::runtime()?.block_on(async { ::agent::run(options, Stop::on_signals()?).await })?;
    Ok(ExitCode::SUCCESS)
}
