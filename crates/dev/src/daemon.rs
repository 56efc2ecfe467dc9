//! The control plane in a process of its own, as it is in production, for what only shows there: its memory, its
//! processor time, its death by kill -9 and its way back. Loopback only, like everything that takes simulated nodes.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use base::config::{Config, Flags};
use base::{App, Clock};
use control::Role;
use fleet::Fleet;
use rustix::process::{Pid, Signal, set_parent_process_death_signal};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use wire::http::Client;
use wire::stop::Stop;

use crate::children::{Kept, Program};

/// The inside: `gpuaasd run --all` that takes simulated nodes, and ends with its parent.
pub fn run(flags: Flags) -> anyhow::Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let config = in_dev(flags)?;
    crate::runtime()?.block_on(control::process::run(&Role::ALL, config))?;
    Ok(ExitCode::SUCCESS)
}

fn in_dev(flags: Flags) -> anyhow::Result<Config> {
    let mut config = flags.resolve()?;
    for address in [
        config.listen_public,
        config.listen_node,
        config.listen_enrol,
        config.listen_metrics,
    ] {
        anyhow::ensure!(address.ip().is_loopback(), "{address} is not loopback");
    }
    config.dev = true;
    Ok(config)
}

/// A daemon that is kept alive, and what its parent needs to work on the same database.
pub struct Daemon {
    pub process: Kept,
    pub fleet: Fleet,
    pub keys_dir: PathBuf,
    metrics: Client,
    stop: Stop,
    loops: TaskTracker,
}

impl Daemon {
    /// Makes the installation's keys if there are none, starts the process, and waits until it is ready. `settings` are
    /// those of `gpuaasd`, by name.
    pub async fn start(
        exe: &Path,
        dir: &Path,
        (owner_url, app_url): (String, String),
        settings: &[(&'static str, &str)],
    ) -> anyhow::Result<Self> {
        let keys_dir = dir.join("keys");
        let [public, node, enrol, metrics] = free_ports()?.map(|port| format!("127.0.0.1:{port}"));
        let mut all = vec![
            ("database_owner_url", owner_url),
            ("database_url", app_url),
            ("keys_dir", keys_dir.display().to_string()),
            ("images_dir", dir.join("images").display().to_string()),
            ("state_dir", dir.display().to_string()),
            ("node_url", format!("https://{node}")),
            ("enrol_url", format!("https://{enrol}")),
            ("listen_public", public),
            ("listen_node", node),
            ("listen_enrol", enrol),
            ("listen_metrics", metrics.clone()),
        ];
        all.extend(settings.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let flags = all
            .iter()
            .fold(Flags::default(), |flags, (name, value)| flags.with(name, value));
        let app = App::open(in_dev(flags)?, Clock::real()).await?;
        fleet::trust::init(&app, &keys_dir, true).await?;
        let (stop, loops) = (Stop::new(), TaskTracker::new());
        app.spawn_loops(&loops, &stop.token());
        loops.close();
        let mut args = vec!["daemon".to_owned()];
        args.extend(
            all.iter()
                .map(|(name, value)| format!("--{}={value}", name.replace('_', "-"))),
        );
        let process = Kept::start(Program {
            exe: exe.to_owned(),
            args,
            log: dir.join("daemon.log"),
        });
        let this = Self {
            process,
            fleet: Fleet::open(app, stop.token()).await?,
            keys_dir,
            metrics: Client::builder(&format!("http://{metrics}"))?.build(),
            stop,
            loops,
        };
        this.until_ready(Duration::from_secs(30)).await?;
        Ok(this)
    }

    pub fn pid(&self) -> anyhow::Result<Pid> {
        self.process.pid().context("the daemon does not run")
    }

    /// Until it says of itself that it can work.
    pub async fn until_ready(&self, within: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + within;
        loop {
            let ready = self.metrics.get("/readyz").send().await;
            if ready.is_ok_and(|answer| answer.status.is_success()) {
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < deadline, "the daemon is not ready within {within:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What its `/metrics` says under this name, all labels together.
    pub async fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let answer = self.metrics.get("/metrics").send().await?;
        let text = std::str::from_utf8(&answer.body)?;
        Ok(text.lines().filter_map(|line| value(line, name)).sum())
    }

    /// Long-polls that it holds.
    pub async fn held(&self) -> anyhow::Result<u64> {
        Ok(self.metric(fleet::metrics::NODES_HELD).await? as u64)
    }

    /// Until it holds this many; says how long that took.
    pub async fn until_held(&self, wanted: u64, within: Duration) -> anyhow::Result<Duration> {
        let began = Instant::now();
        loop {
            // While it is being started again there is nobody to ask.
            let held = self.held().await.unwrap_or(0);
            if held >= wanted {
                return Ok(began.elapsed());
            }
            anyhow::ensure!(began.elapsed() < within, "{held} of {wanted} are held after {within:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn stop(mut self) -> anyhow::Result<()> {
        let process = tokio::task::spawn_blocking(move || {
            self.process.stop();
            (self.fleet, self.stop, self.loops)
        });
        let (fleet, stop, loops) = process.await?;
        stop.trigger();
        loops.wait().await;
        fleet.app.db.close().await;
        Ok(())
    }
}

/// The value of a line of that metric.
fn value(line: &str, name: &str) -> Option<f64> {
    let rest = line.strip_prefix(name)?;
    if !rest.starts_with(['{', ' ']) {
        return None;
    }
    rest.rsplit_once(' ')?.1.parse().ok()
}

/// Ports that nobody has right now. They are kept over a restart, so the kernel cannot choose them at each.
pub fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let listeners: Vec<TcpListener> = (0..N)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<Result<_, _>>()?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        assert_eq!(value("held 7", "held"), Some(7.0));
        assert_eq!(value("held{a=\"b c\"} 7.5", "held"), Some(7.5));
        assert_eq!(value("held_total 7", "held"), None);
        assert_eq!(value("# HELP held x", "held"), None);
    }
}
