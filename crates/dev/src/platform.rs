//! The control plane in one process: as many api replicas as wanted, each with its own pools and its own view, as if
//! they were processes of their own, and the other roles once.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use base::config::{Config, DatabaseUrl};
use base::{App, Clock};
use control::Role;
use control::roles::{Ports, api};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;
use wire::stop::Stop;

use crate::front::Front;

/// A last word on every replica's settings.
pub type Tune = Arc<dyn Fn(&mut Config) + Send + Sync>;

/// What a platform stands on.
#[derive(Clone)]
pub struct Ground {
    pub owner_url: String,
    pub app_url: String,
    pub keys_dir: PathBuf,
    pub clock: Clock,
    /// Wanted ports for public, node and enrolment; 0 or a taken one means any.
    pub ports: [u16; 3],
    pub replicas: usize,
    pub tune: Tune,
}

pub struct Platform {
    /// One per replica.
    pub public_urls: Vec<String>,
    pub node_url: String,
    pub enrol_url: String,
    /// The replicas' insides, for tests that sign as the API itself would.
    pub apps: Vec<App>,
    pub node_front: Option<Front>,
    ground: Ground,
    replicas: Vec<Replica>,
    stop: Stop,
    worker: Stop,
    roles: JoinSet<anyhow::Result<()>>,
    tracker: TaskTracker,
}

/// What is known of a replica besides its insides.
struct Replica {
    /// Public, node and enrolment; kept when it is started anew.
    ports: [u16; 3],
    stop: Stop,
    tracker: TaskTracker,
}

impl Platform {
    pub async fn start(ground: &Ground) -> anyhow::Result<Self> {
        let stop = Stop::new();
        let tracker = TaskTracker::new();
        let mut ports = Vec::new();
        for replica in 0..ground.replicas.max(1) {
            let wanted = if replica == 0 { ground.ports } else { [0; 3] };
            ports.push(bind_all(wanted).await?);
        }
        let public_urls: Vec<String> = ports
            .iter()
            .map(|p| Ok(format!("http://{}", p.public.local_addr()?)))
            .collect::<anyhow::Result<_>>()?;
        let (node, node_front) = entrance(&ports, |p| &p.node, &tracker, &stop).await?;
        let (enrol, _) = entrance(&ports, |p| &p.enrol, &tracker, &stop).await?;
        let (node_url, enrol_url) = (format!("https://{node}"), format!("https://{enrol}"));
        let mut this = Self {
            public_urls,
            node_url,
            enrol_url,
            apps: Vec::new(),
            node_front,
            ground: ground.clone(),
            replicas: Vec::new(),
            worker: stop.child(),
            stop,
            roles: JoinSet::new(),
            tracker,
        };
        for (n, ports) in ports.into_iter().enumerate() {
            let (app, replica) = this.replica(ports, n == 0).await?;
            this.apps.push(app);
            this.replicas.push(replica);
        }
        for (role, stop) in [
            (Role::OutboxRelay, &this.stop),
            (Role::ProvisioningWorker, &this.worker),
        ] {
            this.roles.spawn(role.run(this.apps[0].clone(), stop.clone()));
        }
        Ok(this)
    }

    async fn replica(&mut self, ports: Ports, first: bool) -> anyhow::Result<(App, Replica)> {
        let replica = Replica {
            ports: [&ports.public, &ports.node, &ports.enrol].map(|l| l.local_addr().map_or(0, |a| a.port())),
            stop: self.stop.child(),
            tracker: TaskTracker::new(),
        };
        let public = ports.public.local_addr()?;
        let config = config(&self.ground, public, &self.node_url, &self.enrol_url);
        let app = App::open(config, self.ground.clock.clone()).await?;
        app.spawn_loops(&replica.tracker, &replica.stop.token());
        if first {
            fleet::trust::init(&app, &self.ground.keys_dir, true).await?;
        }
        let served = api::serve_on(app.clone(), ports, replica.stop.clone());
        self.roles.spawn(replica.tracker.track_future(served));
        replica.tracker.close();
        Ok((app, replica))
    }

    /// For tests that bring a worker of their own.
    pub fn retire_worker(&self) {
        self.worker.trigger();
    }

    /// Stops one replica as a deployment would: what is under way is answered, then it is gone.
    pub async fn stop_replica(&mut self, n: usize) {
        self.replicas[n].stop.trigger();
        self.replicas[n].tracker.wait().await;
        self.apps[n].db.close().await;
    }

    /// Starts it anew where it was, with nothing in its memory.
    pub async fn start_replica(&mut self, n: usize) -> anyhow::Result<()> {
        let ports = bind_all(self.replicas[n].ports).await?;
        let (app, replica) = self.replica(ports, false).await?;
        anyhow::ensure!(replica.ports == self.replicas[n].ports, "somebody took its ports");
        self.apps[n] = app;
        self.replicas[n] = replica;
        Ok(())
    }

    /// A role that ended by itself, and why; never returns while all is well.
    pub async fn ended(&mut self) -> anyhow::Result<()> {
        self.roles.join_next().await.context("no role runs")??
    }

    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.stop.trigger();
        while let Some(ended) = self.roles.join_next().await {
            ended??;
        }
        for replica in &self.replicas {
            replica.tracker.wait().await;
        }
        self.tracker.close();
        self.tracker.wait().await;
        for app in &self.apps {
            app.db.close().await;
        }
        Ok(())
    }
}

fn config(ground: &Ground, public: SocketAddr, node_url: &str, enrol_url: &str) -> Config {
    let mut config = Config::defaults();
    config.database_owner_url = Some(DatabaseUrl::new(ground.owner_url.clone()));
    config.database_url = Some(DatabaseUrl::new(ground.app_url.clone()));
    config.keys_dir.clone_from(&ground.keys_dir);
    config.images_dir = images_dir(&ground.keys_dir);
    config.public_url = format!("http://{public}");
    node_url.clone_into(&mut config.node_url);
    enrol_url.clone_into(&mut config.enrol_url);
    config.dev = true;
    ask_freely(&mut config);
    (ground.tune)(&mut config);
    config
}

/// On a loopback platform everybody is one person with one token, and asks as much in a minute as a company would.
pub fn ask_freely(config: &mut Config) {
    config.rate_reads_per_min = 6_000_000;
    config.rate_writes_per_min = 6_000_000;
}

async fn bind_all([public, node, enrol]: [u16; 3]) -> anyhow::Result<Ports> {
    Ok(Ports {
        public: bind(public).await?,
        node: bind(node).await?,
        enrol: bind(enrol).await?,
    })
}

/// The wanted port, or the next free one; loopback only, always.
pub(crate) async fn bind(wanted: u16) -> anyhow::Result<TcpListener> {
    let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    if wanted != 0 {
        for port in wanted..wanted.saturating_add(20) {
            if let Ok(listener) = TcpListener::bind(loopback(port)).await {
                return Ok(listener);
            }
        }
    }
    Ok(TcpListener::bind(loopback(0)).await?)
}

/// Where nodes call: the listener itself, or a front if there are several.
async fn entrance(
    ports: &[Ports],
    pick: impl Fn(&Ports) -> &TcpListener,
    tracker: &TaskTracker,
    stop: &Stop,
) -> anyhow::Result<(SocketAddr, Option<Front>)> {
    let backends: Vec<SocketAddr> = ports.iter().map(|p| pick(p).local_addr()).collect::<Result<_, _>>()?;
    if let [only] = backends.as_slice() {
        return Ok((*only, None));
    }
    let front = Front::start(bind(0).await?, backends, tracker, stop)?;
    Ok((front.address, Some(front)))
}

/// The files of images lie beside the keys.
pub fn images_dir(keys_dir: &Path) -> PathBuf {
    keys_dir.with_file_name("images")
}

/// The key directory under a state directory.
pub fn keys_dir(state: &Path) -> PathBuf {
    state.join("keys")
}
