//! The stage: a database, api replicas in processes of their own, bad roads between everybody, and simulated nodes.
//! Everything on it can be killed but the stage itself.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use base::auth::{Role, bootstrap_admin};
use base::config::{Config, DatabaseUrl};
use base::{Actor, App, Clock};
use fleet::Fleet;
use fleet::certificate::issue_role;
use host::pretend::Profile;
use model::api::{Enrolment, NodeCreate, NodeView};
use model::id::NodeId;
use model::state::{NodeMode, NodeState};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use tokio_util::task::TaskTracker;
use wire::http::Client;
use wire::stop::Stop;

use crate::api::Api;
use crate::dice::Dice;
use crate::half::{Odd, Planted};
use crate::platform::ask_freely;
use crate::proxy::{Counts, Policy, Proxy, Speech};
use crate::replica::{Listens, Replica, Settings, listens};
use crate::simnode::{NodeDir, SimNode};
use crate::slots::approve_all;

/// What a useradd takes, about: long enough to be killed in the middle of it.
const CHANGE_TAKES_MS: u64 = 20;
/// How long a start may take on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(90);
/// Enough for nodes whose halves and whose api are killed all the time.
pub const STALE_S: u64 = 30;
/// Half a minute between two renewals of a node, about: agents are killed while they renew, too.
pub const CERT_LIFE_S: u64 = 60;
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub struct Ground {
    pub dir: PathBuf,
    /// The gpuaas-dev binary.
    pub exe: PathBuf,
    pub owner_url: String,
    pub app_url: String,
    pub nodes: usize,
    /// The last ones of them are rented out as slices, the others whole.
    pub slice_nodes: usize,
    pub replicas: usize,
    /// A node silent for so many seconds is stale.
    pub stale_s: u64,
    /// So long lasts a node's working certificate.
    pub cert_life_s: u64,
    pub planted: Option<Planted>,
}

/// The ways between the parties, each through a proxy of its own.
pub struct Roads {
    pub agents: Proxy,
    pub workers: Proxy,
    pub people: Proxy,
    pub enrolment: Proxy,
}

pub struct Stage {
    pub nodes: Vec<(NodeId, SimNode)>,
    pub slice_nodes: usize,
    pub replicas: Vec<Replica>,
    pub roads: Roads,
    /// As a person's tools, over their road.
    pub api: Api,
    /// As a worker, over theirs.
    pub worker: Client,
    /// The API's own functions, in this process.
    pub fleet: Fleet,
    /// How far ahead of the machine's the control plane's clock is.
    clock: Arc<AtomicI64>,
    stop: Stop,
    tracker: TaskTracker,
}

impl Stage {
    /// Sets everything up on good roads; returns when every node is ready.
    pub async fn set(ground: &Ground, dice: &mut Dice) -> anyhow::Result<Self> {
        let (stop, tracker) = (Stop::new(), TaskTracker::new());
        let roads = roads(ground, dice, &tracker, &stop).await?;
        let config = config(ground, &roads);
        let clock = Arc::default();
        let app = App::open(config.clone(), Clock::wrong(Arc::clone(&clock))).await?;
        fleet::trust::init(&app, &config.keys_dir, true).await?;
        let admin = bootstrap_admin(&app.db, "ada")
            .await
            .map_err(|error| anyhow::anyhow!("no administrator: {}", error.code))?;
        let fleet = Fleet::open(app, stop.token()).await?;
        let worker = worker(&fleet, &roads).await?;
        let replicas = (0..ground.replicas)
            .map(|n| Replica::start(&ground.exe, &replica_dir(&ground.dir, n), &settings(&config)))
            .collect::<Result<_, _>>()?;
        let api = Api::new(&format!("http://{}", roads.people.address), &admin.secret.reveal())?;
        let mut this = Self {
            nodes: Vec::new(),
            slice_nodes: ground.slice_nodes,
            replicas,
            roads,
            api,
            worker,
            fleet,
            clock,
            stop,
            tracker,
        };
        for n in 0..ground.nodes {
            let mode = match n + ground.slice_nodes < ground.nodes {
                true => NodeMode::Machine,
                false => NodeMode::Slice,
            };
            let node = this.node(ground, &format!("n{n}"), mode).await?;
            this.nodes.push(node);
        }
        for (id, node) in &this.nodes {
            until_ready(&this.api, *id, &node.name).await?;
        }
        for (id, _) in &this.nodes[this.machines()..] {
            approve_all(&this.api, *id).await?;
        }
        Ok(this)
    }

    /// A node of its own, enrolled and started.
    async fn node(&self, ground: &Ground, name: &str, mode: NodeMode) -> anyhow::Result<(NodeId, SimNode)> {
        let profile = match mode {
            NodeMode::Machine => Profile::Cpu,
            NodeMode::Slice => Profile::H100x8,
        };
        let body = NodeCreate {
            name: name.to_owned(),
            mode: Some(mode),
            board_serial: None,
        };
        let began = Instant::now();
        let enrolment: Enrolment = loop {
            match self.api.post("/v1/nodes", &body).await {
                Ok(enrolment) => break enrolment,
                // The replicas may still be starting.
                Err(_) if began.elapsed() < READY_WITHIN => tokio::time::sleep(LOOK_EVERY).await,
                Err(error) => return Err(error.context("a node could not be added")),
            }
        };
        let dir = NodeDir::new(ground.dir.join(name))?;
        SimNode::enrol(&dir, profile, &enrolment.token)?;
        let odd = Odd {
            takes_ms: CHANGE_TAKES_MS,
            planted: ground.planted,
            ..Odd::default()
        };
        let node = SimNode::odd(&ground.exe, name, dir, profile, odd);
        Ok((enrolment.node.id, node))
    }

    /// The same weather on every road but that of enrolment, which nobody walks twice.
    pub fn set_roads(&self, policy: Policy) {
        for road in [&self.roads.agents, &self.roads.workers, &self.roads.people] {
            road.set(policy);
        }
    }

    /// How many of the nodes, the first ones, are rented out whole.
    pub fn machines(&self) -> usize {
        self.nodes.len().saturating_sub(self.slice_nodes)
    }

    /// The clock of the whole control plane jumps. That of the nodes is right.
    pub fn set_clock(&self, by_ms: i64) -> std::io::Result<()> {
        self.clock.store(by_ms, Ordering::SeqCst);
        self.replicas.iter().try_for_each(|replica| replica.set_clock(by_ms))
    }

    /// What happened on those roads, together.
    pub fn counts(&self) -> Counts {
        self.roads.agents.counts() + self.roads.workers.counts() + self.roads.people.counts()
    }

    /// Takes it down. The directory is the caller's.
    pub async fn strike(mut self) {
        for (_, node) in &mut self.nodes {
            node.stop();
        }
        for replica in &mut self.replicas {
            replica.process.stop();
        }
        self.stop.trigger();
        self.tracker.close();
        self.tracker.wait().await;
        self.fleet.app.db.close().await;
    }
}

async fn until_ready(api: &Api, id: NodeId, name: &str) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let state = api
            .get::<NodeView>(&format!("/v1/nodes/{id}"))
            .await
            .map(|node| node.state);
        match state {
            Ok(NodeState::Ready) => return Ok(()),
            other if began.elapsed() > READY_WITHIN => anyhow::bail!("{name} is not ready: {other:?}"),
            _ => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

fn replica_dir(dir: &Path, n: usize) -> PathBuf {
    dir.join(format!("api{n}"))
}

async fn roads(ground: &Ground, dice: &mut Dice, tracker: &TaskTracker, stop: &Stop) -> anyhow::Result<Roads> {
    let dirs: Arc<Vec<PathBuf>> = Arc::new((0..ground.replicas).map(|n| replica_dir(&ground.dir, n)).collect());
    let mut road = async |speech, door: fn(Listens) -> SocketAddr| {
        let dirs = dirs.clone();
        let targets = Arc::new(move || dirs.iter().filter_map(|dir| listens(dir)).map(door).collect());
        Proxy::start(speech, targets, dice.fork(), tracker, stop).await
    };
    Ok(Roads {
        agents: road(Speech::Tls, |listens| listens.node).await?,
        workers: road(Speech::Tls, |listens| listens.node).await?,
        people: road(Speech::Plain, |listens| listens.public).await?,
        enrolment: road(Speech::Tls, |listens| listens.enrol).await?,
    })
}

/// Times that are minutes in production: what is lost must be missed soon, or a run takes days.
fn config(ground: &Ground, roads: &Roads) -> Config {
    let mut config = Config::defaults();
    config.database_owner_url = Some(DatabaseUrl::new(ground.owner_url.clone()));
    config.database_url = Some(DatabaseUrl::new(ground.app_url.clone()));
    config.keys_dir = ground.dir.join("keys");
    config.node_url = format!("https://{}", roads.agents.address);
    config.enrol_url = format!("https://{}", roads.enrolment.address);
    config.wait_hold_s = 2;
    config.task_lease_s = 3;
    config.heartbeat_stale_s = ground.stale_s;
    config.working_cert_life_s = ground.cert_life_s;
    config.dev = true;
    ask_freely(&mut config);
    config
}

/// The same for a process of its own. It does not get the owner's login: it has nothing to migrate.
fn settings(config: &Config) -> Settings {
    let text = |value: &str| format!("{value:?}");
    let app_url = config.database_url.as_ref().map_or("", DatabaseUrl::reveal);
    vec![
        ("database_url", text(app_url)),
        ("keys_dir", text(&config.keys_dir.display().to_string())),
        ("node_url", text(&config.node_url)),
        ("enrol_url", text(&config.enrol_url)),
        ("wait_hold_s", config.wait_hold_s.to_string()),
        ("task_lease_s", config.task_lease_s.to_string()),
        ("heartbeat_stale_s", config.heartbeat_stale_s.to_string()),
        ("working_cert_life_s", config.working_cert_life_s.to_string()),
        ("rate_reads_per_min", config.rate_reads_per_min.to_string()),
        ("rate_writes_per_min", config.rate_writes_per_min.to_string()),
    ]
}

/// A process of ours that runs workflows, with a certificate of its own.
async fn worker(fleet: &Fleet, roads: &Roads) -> anyhow::Result<Client> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let csr = params.serialize_request(&key)?.pem()?;
    let actor = Actor::system("torture");
    let opened = fleet.app.db.change(&actor, "certificate.role", fleet.app.installation);
    let mut change = opened.await?;
    let issued = issue_role(fleet, &mut change, Role::ProvisioningWorker, "torture", &csr)
        .await
        .map_err(|error| anyhow::anyhow!("no certificate for the worker: {}", error.code))?;
    change.commit().await?;
    let chain = wire::pem::certificates(&issued.pem).context("the worker's chain")?;
    let key = wire::pem::private_key(&key.serialize_pem()).context("the worker's key")?;
    let roots = wire::pem::certificates(&fleet.ca.bundle_pem())?;
    let tls = wire::tls::client_config(Some((chain, key)), &roots)?;
    let url = format!("https://{}", roads.workers.address);
    Ok(Client::builder(&url)?.tls(tls).timeout(Duration::from_secs(10)).build())
}
