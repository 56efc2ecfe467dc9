//! How long an executor is away when it is started again: from exec of the shipped program until it has answered a
//! hello on its socket; with a new journal, and with one that is about as full as it is ever let become, of results
//! that nobody has acknowledged.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use base::Clock;
use fleet::Fleet;
use model::envelope::TaskPayload;
use model::id::{NodeId, derive_node_op, derive_task};
use model::socket::{FromAgent, FromExecutor};
use model::task::{Task, TaskType, health_probe};
use model::trust::Purpose;

use super::Place;
use super::sample::Sample;
use super::socket::Socket;
use super::stand::Stand;
use crate::children::{Program, spawn};
use crate::figures::{Goal, Report};

const STARTS: usize = 50;
const GOAL_MS: f64 = 50.0;
const PATIENCE: Duration = Duration::from_secs(10);
/// The journal is filled up to here, or for so long.
const FULL_PCT: u8 = 74;
const FILL_MOST: Duration = Duration::from_secs(90);

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let stand = Stand::start(place, "executor-start", 1, |_| {}).await?;
    let (id, mut node) = stand.ready_node(place, "starter").await?;
    let signer = Signer::new(&stand, id).await?;
    let socket = node.dir.path().join("x.sock");
    let used_pct = tokio::task::spawn_blocking(move || {
        node.agent.stop();
        let filled = fill(&socket, &signer);
        node.stop();
        filled
    })
    .await??;
    let full = Starter::new(place, &stand.scratch.path().join("starter"))?;
    let empty = Starter::new(place, &stand.scratch.path().join("fresh"))?;
    let (empty, full) = tokio::task::spawn_blocking(move || anyhow::Ok((empty.starts()?, full.starts()?))).await??;
    stand.end().await?;
    let goal = Goal::AtMost(GOAL_MS);
    report.put(
        "start to ready, new journal, p50",
        empty.p(50.0),
        "ms",
        None,
        Goal::None,
    );
    report.put("start to ready, new journal, p99", empty.p(99.0), "ms", None, goal);
    report.put("used of the full journal", f64::from(used_pct), "%", None, Goal::None);
    report.put(
        "start to ready, full journal, p50",
        full.p(50.0),
        "ms",
        None,
        Goal::None,
    );
    report.put("start to ready, full journal, p99", full.p(99.0), "ms", None, goal);
    Ok(())
}

/// Tasks as the control plane would sign them.
struct Signer {
    fleet: Fleet,
    node: NodeId,
}

impl Signer {
    async fn new(stand: &Stand, node: NodeId) -> anyhow::Result<Self> {
        let fleet = Fleet::open(stand.platform.apps[0].clone(), Default::default()).await?;
        Ok(Self { fleet, node })
    }

    fn offer(&self, n: u64) -> anyhow::Result<FromAgent> {
        let spec = TaskType::HealthProbe.spec();
        let now = Clock::real().now();
        // Counted from far above what the platform itself has asked for.
        let op_id = derive_node_op(self.node, spec.name, 1_000_000 + n);
        let payload = TaskPayload {
            v: 1,
            aud: self.fleet.app.installation,
            task_id: derive_task(op_id, 0),
            op_id,
            intent_sha256: None,
            node_id: self.node,
            node_epoch: 1,
            seq: 1_000_000 + n,
            task_type: spec.name.to_owned(),
            type_version: spec.version,
            issued_at: now,
            start_by: now.plus_s(600),
            max_runtime_s: spec.max_runtime_s,
            actor_ref: "system:bench".to_owned(),
            correlation_id: op_id.uuid(),
            params: Task::HealthProbe(health_probe::Params {}).params(),
        };
        let keyring = self.fleet.keyring();
        let key = keyring.task_key(Purpose::Diag).context("no key for probes")?;
        Ok(FromAgent::Offer {
            task_id: payload.task_id,
            fence: 1_000_000 + n,
            envelope: payload.sign(key),
            server_time: now,
        })
    }
}

/// Has probes done and acknowledges none, until there is hardly room for more. Says how full it got.
fn fill(path: &Path, signer: &Signer) -> anyhow::Result<u8> {
    let mut socket = Socket::connect(path, PATIENCE)?;
    let began = Instant::now();
    let mut used_pct = 0;
    for n in 0.. {
        socket.send(&signer.offer(n)?)?;
        let answer = socket.wait(|said| match said {
            FromExecutor::Done { envelope, .. } => Some(envelope.payload_unverified().map_err(|code| code.to_string())),
            FromExecutor::NotTaken { code, .. } => Some(Err(code.to_string())),
            _ => None,
        })?;
        match answer {
            Err(why) if n == 0 => anyhow::bail!("the executor takes nothing: {why}"),
            Err(_) => break,
            Ok(bytes) => {
                let result: serde_json::Value = serde_json::from_slice(&bytes)?;
                let used = result["output"]["journal_used_pct"].as_u64().unwrap_or(0);
                used_pct = u8::try_from(used)?;
            }
        }
        if used_pct >= FULL_PCT || began.elapsed() > FILL_MOST {
            break;
        }
    }
    Ok(used_pct)
}

struct Starter {
    program: Program,
    socket: PathBuf,
}

impl Starter {
    fn new(place: &Place, dir: &Path) -> anyhow::Result<Self> {
        let (socket, state_dir) = (dir.join("x.sock"), dir.join("executor"));
        std::fs::create_dir_all(&state_dir)?;
        let text = |path: &Path| path.display().to_string();
        let args = vec![
            "run".to_owned(),
            "--config".to_owned(),
            text(&dir.join("node.toml")),
            "--state-dir".to_owned(),
            text(&state_dir),
            "--socket".to_owned(),
            text(&socket),
        ];
        let program = Program {
            exe: place.program("gpuaas-node-executor")?,
            args,
            log: dir.join("executor.log"),
        };
        Ok(Self { program, socket })
    }

    /// Each start ends with a kill: that is what the next one has to be quick after.
    fn starts(&self) -> anyhow::Result<Sample> {
        let mut sample = Sample::default();
        // The first may make keys and journal; it is not one of those that are counted.
        for n in 0..=STARTS {
            let took = self.start()?;
            if n > 0 {
                sample.put(took);
            }
        }
        Ok(sample)
    }

    fn start(&self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let mut child = spawn(&self.program)?;
        let answered = self.hello();
        let took = began.elapsed();
        child.kill()?;
        child.wait()?;
        if answered.is_err() {
            let said = std::fs::read_to_string(&self.program.log).unwrap_or_default();
            eprintln!("{}", said.lines().last().unwrap_or_default());
        }
        answered.map(|()| took)
    }

    fn hello(&self) -> anyhow::Result<()> {
        let mut socket = Socket::connect(&self.socket, PATIENCE)?;
        socket.send(&FromAgent::Hello { request_id: 1 })?;
        socket.wait(|said| matches!(said, FromExecutor::State { request_id: 1, .. }).then_some(()))
    }
}
