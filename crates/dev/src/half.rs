//! One half of a simulated node, in a process of its own: the same code as the production binaries, on a pretended
//! host. Hidden from `--help`: people start nodes, not halves.

use std::path::PathBuf;
use std::process::ExitCode;

use host::pretend::Profile;
use rustix::process::{Signal, set_parent_process_death_signal};
use wire::stop::Stop;

use crate::simnode::NodeDir;

fn child_logs() -> anyhow::Result<()> {
    // Whoever started us may be killed; then nobody is left to stop us.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    base::logs::init_to("info", true, std::io::stderr)?;
    Ok(())
}

pub fn executor(dir: PathBuf, profile: Profile) -> anyhow::Result<ExitCode> {
    child_logs()?;
    let options = NodeDir::new(dir)?.executor_options(profile)?;
    ::executor::sandbox::enter()?;
    ::executor::run(options, ::executor::Stop::new()?)?;
    Ok(ExitCode::SUCCESS)
}

pub fn agent(dir: PathBuf) -> anyhow::Result<ExitCode> {
    child_logs()?;
    let options = NodeDir::new(dir)?.agent_options();
    crate::runtime()?.block_on(async { ::agent::run(options, Stop::on_signals()?).await })?;
    Ok(ExitCode::SUCCESS)
}
