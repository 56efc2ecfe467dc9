//! One half of a simulated node, in a process of its own: the same code as the production binaries, on a pretended
//! host. Hidden from `--help`: people start nodes, not halves.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ::executor::Limits;
use host::pretend::{Pretend, Profile};
use rustix::process::{Signal, set_parent_process_death_signal};
use wire::stop::Stop;

use crate::simnode::NodeDir;

/// Whoever started us may be killed; then nobody is left to stop us.
pub(crate) fn end_with_parent() -> anyhow::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::TERM))?)
}

fn child_logs(filter: &str) -> anyhow::Result<()> {
    end_with_parent()?;
    base::logs::init_to(filter, true, std::io::stderr)?;
    Ok(())
}

pub fn executor(dir: PathBuf, profile: Profile, odd: Odd, log: &str) -> anyhow::Result<ExitCode> {
    child_logs(log)?;
    let dir = NodeDir::new(dir)?;
    let takes = Duration::from_millis(odd.takes_ms);
    let mut options = dir.executor_options(profile)?;
    options.limits = odd.limits();
    options.host = Pretend::in_directory(profile, &dir.host())?.taking(takes).host();
    match odd.planted {
        None => {}
        Some(Planted::NoJournal) => forget_journal(&dir)?,
        Some(Planted::NoEffects) => options.host = Pretend::in_memory(profile).host(),
    }
    ::executor::sandbox::enter()?;
    ::executor::run(options, ::executor::Stop::new()?)?;
    Ok(ExitCode::SUCCESS)
}

/// How a simulated host differs from a good and infinitely fast one.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Odd {
    /// Every change takes this long
    #[arg(long, default_value_t = 0)]
    pub takes_ms: u64,
    /// How large a new journal is made
    #[arg(long)]
    pub journal_bytes: Option<u64>,
    /// With less room on the disk nothing new is taken
    #[arg(long)]
    pub min_free_bytes: Option<u64>,
    /// Plant a bug
    #[arg(long = "break")]
    pub planted: Option<Planted>,
}

impl Odd {
    /// As arguments of the process that plays it.
    pub(crate) fn args(self) -> Vec<String> {
        let planted = self.planted.iter().flat_map(|bug| ["--break", bug.as_str()]);
        let mut args: Vec<String> = planted.map(str::to_owned).collect();
        let numbers = [
            ("--takes-ms", Some(self.takes_ms)),
            ("--journal-bytes", self.journal_bytes),
            ("--min-free-bytes", self.min_free_bytes),
        ];
        for (name, value) in numbers {
            args.extend(value.into_iter().flat_map(|value| [name.to_owned(), value.to_string()]));
        }
        args
    }

    fn limits(self) -> Limits {
        let usual = Limits::default();
        Limits {
            journal_bytes: self.journal_bytes.unwrap_or(usual.journal_bytes),
            min_free_bytes: self.min_free_bytes.unwrap_or(usual.min_free_bytes),
        }
    }
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

pub fn agent(dir: PathBuf, log: &str) -> anyhow::Result<ExitCode> {
    child_logs(log)?;
    ::agent::forbid_cores()?;
    let options = NodeDir::new(dir)?.agent_options();
    // One thread, as in production.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { ::agent::run(options, Stop::on_signals()?).await })?;
    Ok(ExitCode::SUCCESS)
}
