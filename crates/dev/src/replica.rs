//! One api replica in a process of its own, so that it can be killed like anybody's: the same roles as `gpuaasd`, on
//! loopback, on whatever ports are free. Where it listens it writes down at each start; a front asks there.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use base::config::Flags;
use base::{App, Clock};
use control::Role;
use control::roles::{Ports, api};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use wire::stop::Stop;

use crate::children::{Kept, Program};

/// Where a replica listens in this life.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Listens {
    pub public: SocketAddr,
    pub node: SocketAddr,
    pub enrol: SocketAddr,
}

/// How often a replica looks whether its clock is to jump.
const CLOCK_EVERY: Duration = Duration::from_millis(50);

/// Settings of a replica, as they stand in its file: name and value.
pub type Settings = Vec<(&'static str, String)>;

/// A replica and where it keeps its things.
pub struct Replica {
    dir: PathBuf,
    pub process: Kept,
}

impl Replica {
    pub fn start(exe: &Path, dir: &Path, settings: &Settings) -> std::io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let lines = settings.iter().map(|(name, value)| format!("{name} = {value}\n"));
        std::fs::write(dir.join("gpuaasd.toml"), lines.collect::<String>())?;
        let process = Kept::start(Program {
            exe: exe.to_owned(),
            args: vec!["replica".to_owned(), "--dir".to_owned(), dir.display().to_string()],
            log: dir.join("gpuaasd.log"),
        });
        Ok(Self {
            dir: dir.to_owned(),
            process,
        })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// From now on its clock is ahead of the machine's by so much.
    pub fn set_clock(&self, by_ms: i64) -> std::io::Result<()> {
        let beside = self.dir.join("clock.new");
        std::fs::write(&beside, by_ms.to_string())?;
        std::fs::rename(&beside, self.dir.join(CLOCK))
    }
}

/// By how many milliseconds a replica's clock is wrong, in its directory.
const CLOCK: &str = "clock";

/// Keeps a replica's clock as wrong as it is meant to be.
async fn follow_clock(path: PathBuf, by_ms: Arc<AtomicI64>) {
    loop {
        let wanted = std::fs::read_to_string(&path).ok().and_then(|text| text.parse().ok());
        by_ms.store(wanted.unwrap_or(0), Ordering::SeqCst);
        tokio::time::sleep(CLOCK_EVERY).await;
    }
}

/// None while it has never listened. After a kill, where it was; nobody is there then.
pub fn listens(dir: &Path) -> Option<Listens> {
    serde_json::from_slice(&std::fs::read(dir.join("listens.json")).ok()?).ok()
}

/// The replica's own process.
pub fn run(dir: &Path) -> anyhow::Result<ExitCode> {
    crate::half::end_with_parent()?;
    base::cores::forbid()?;
    let mut config = Flags::default().with_file(dir.join("gpuaasd.toml")).resolve()?;
    config.dev = true;
    base::logs::init(&config)?;
    base::metrics::install(&[fleet::metrics::METRICS]);
    crate::runtime()?.block_on(async {
        let stop = Stop::on_signals()?;
        let by_ms = Arc::default();
        let app = App::open(config, Clock::wrong(Arc::clone(&by_ms))).await?;
        let tracker = TaskTracker::new();
        let (path, stopped) = (dir.join(CLOCK), stop.clone());
        tracker.spawn(async move { stopped.or(follow_clock(path, by_ms)).await });
        app.spawn_loops(&tracker, &stop.token());
        let ports = Ports {
            public: bind().await?,
            node: bind().await?,
            enrol: bind().await?,
        };
        tell(dir, &ports)?;
        let relay = Role::OutboxRelay.run(app.clone(), stop.clone());
        let serve = api::serve_on(app.clone(), ports, stop.clone());
        let served = tokio::try_join!(relay, serve);
        stop.trigger();
        tracker.close();
        tracker.wait().await;
        app.db.close().await;
        served?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn bind() -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await
}

fn tell(dir: &Path, ports: &Ports) -> anyhow::Result<()> {
    let listens = Listens {
        public: ports.public.local_addr()?,
        node: ports.node.local_addr()?,
        enrol: ports.enrol.local_addr()?,
    };
    let beside = dir.join("listens.json.new");
    std::fs::write(&beside, serde_json::to_vec(&listens)?)?;
    std::fs::rename(&beside, dir.join("listens.json"))?;
    Ok(())
}
