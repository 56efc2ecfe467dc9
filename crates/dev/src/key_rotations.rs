//! Signing keys replaced over and over while tenants come and go: no task fails, no envelope is refused, no request of
//! an agent goes unanswered. The judge of effects is the pretended host's own log.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use anyhow::{Context, ensure};
use base::Actor;
use base::config::Config;
use base::testing::eventually;
use fleet::Fleet;
use fleet::intent::{Authorised, sign};
use fleet::task::{Ask, Cover, enqueue};
use host::pretend::Profile;
use model::api::{TaskView, TrustRotate, TrustView};
use model::id::{AllocationId, NodeId, OpId, ProjectId, TaskId, derive_op};
use model::intent::Wish;
use model::state::TaskState;
use model::task::{Task, deprovision_user, provision_user};
use model::value::SshKey;
use serde::Deserialize;

use crate::figures::{Goal, Report};
use crate::simnode::SimNode;
use crate::town::Town;

/// What a run has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub rotations: u32,
    /// Tasks asked for by the load, all of which succeeded.
    pub tasks: u32,
    /// Distinct keys that signed them.
    pub signers: u32,
    /// Tasks that ended in any other way.
    pub failed: u32,
    /// Requests that an agent got no good answer to.
    pub unanswered: u32,
}

/// Rotates all purposes `rotations` times, one after the other, under load on every node.
pub async fn key_rotations(town: &Town, nodes: &[(NodeId, &SimNode)], rotations: u32) -> anyhow::Result<Seen> {
    let (stop, tasks) = (AtomicBool::new(false), AtomicU32::new(0));
    let fleet = town.fleet().await;
    let before: Vec<u32> = nodes.iter().map(|(_, node)| unanswered(node)).collect();
    let load = nodes.iter().enumerate().map(|(n, (node, _))| {
        let (fleet, stop, tasks) = (&fleet, &stop, &tasks);
        async move { guests(town, fleet, *node, n as u32, stop, tasks).await }
    });
    let rotating = async {
        let outcome = rotate_all(town, rotations).await;
        stop.store(true, Ordering::SeqCst);
        outcome
    };
    let (rotated, loads) = tokio::join!(rotating, futures_util::future::join_all(load));
    rotated?;
    loads.into_iter().collect::<anyhow::Result<Vec<()>>>()?;
    for (_, node) in nodes {
        let odd: Vec<_> = comings_and_goings(node)?
            .into_iter()
            .filter(|(name, seen)| name.starts_with('g') && *seen != (1, 1))
            .collect();
        ensure!(odd.is_empty(), "came and went otherwise than once: {odd:?}");
    }
    let (signers, failed) = signers(&fleet).await?;
    let after = nodes.iter().map(|(_, node)| unanswered(node));
    Ok(Seen {
        rotations,
        tasks: tasks.load(Ordering::SeqCst),
        signers,
        failed,
        unanswered: after.zip(before).map(|(after, before)| after - before).sum(),
    })
}

/// A town of its own with two nodes, rotated `count` times; the figures of it.
pub async fn soak(exe: &str, count: u32) -> anyhow::Result<Report> {
    let town = Town::tuned(exe, brisk).await;
    let (a, mut first) = town.node("first", Profile::Cpu).await;
    let (b, mut second) = town.node("second", Profile::Cpu).await;
    let began = Instant::now();
    let seen = key_rotations(&town, &[(a, &first), (b, &second)], count).await?;
    let mut report = Report::new("key_rotations");
    let told = |n: u32| f64::from(n);
    report.put(
        "rotations of all signing keys",
        told(seen.rotations),
        "",
        None,
        Goal::AtLeast(told(count)),
    );
    report.put("tasks that succeeded meanwhile", told(seen.tasks), "", None, Goal::None);
    report.put("keys that signed them", told(seen.signers), "", None, Goal::None);
    report.put(
        "tasks that ended otherwise",
        told(seen.failed),
        "",
        None,
        Goal::AtMost(0.0),
    );
    report.put(
        "requests of agents not answered",
        told(seen.unanswered),
        "",
        None,
        Goal::AtMost(0.0),
    );
    report.put("took", began.elapsed().as_secs_f64(), "s", None, Goal::None);
    first.stop();
    second.stop();
    town.end().await;
    Ok(report)
}

/// Sweeps that are seconds in production, and a short overlap, so that keys retire while somebody looks.
pub fn brisk(config: &mut Config) {
    config.wait_hold_s = 2;
    config.identity_sweep_ms = 300;
    config.signing_key_overlap_s = 3;
}

async fn rotate_all(town: &Town, rotations: u32) -> anyhow::Result<()> {
    for _ in 0..rotations {
        let before: TrustView = town.api().get("/v1/trust").await?;
        let _: TrustView = town.api().post("/v1/trust/rotate", &TrustRotate::default()).await?;
        eventually("every purpose has its next key", async || {
            let now: TrustView = town.api().get("/v1/trust").await.map_err(|e| e.to_string())?;
            let signing = |view: &TrustView| {
                let active = view.keys.iter().filter(|key| key.status.as_str() == "active");
                active.map(|key| key.keyid).collect::<Vec<_>>()
            };
            let old = signing(&before);
            match now.rotations.is_empty() && signing(&now).iter().all(|keyid| !old.contains(keyid)) {
                true => Ok(()),
                false => Err(format!("{:?}", now.rotations)),
            }
        })
        .await;
    }
    Ok(())
}

/// One tenant after the other moves in and out, until told to stop.
async fn guests(
    town: &Town,
    fleet: &Fleet,
    node: NodeId,
    house: u32,
    stop: &AtomicBool,
    tasks: &AtomicU32,
) -> anyhow::Result<()> {
    for n in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let guest = Guest::new(&format!("g{house}-{n}"), 20_000 + house * 4_000 + n % 4_000)?;
        for task in [guest.arrives(), guest.leaves()] {
            let (id, _) = guest.ask(fleet, node, task).await?;
            let ended = town.until_task(id, TaskState::is_end).await;
            ensure!(ended.state == TaskState::Succeeded, "{ended:?}");
            tasks.fetch_add(1, Ordering::SeqCst);
        }
        let _: TaskView = town
            .api()
            .post(&format!("/v1/nodes/{node}/probe"), &serde_json::json!({}))
            .await?;
    }
    Ok(())
}

/// A tenant of one machine, as the API would authorise one.
pub struct Guest {
    allocation: AllocationId,
    project: ProjectId,
    name: model::value::Name,
    uid: model::value::Uid,
    key: SshKey,
}

impl Guest {
    pub fn new(name: &str, uid: u32) -> anyhow::Result<Self> {
        let blob = [&11u32.to_be_bytes()[..], b"ssh-ed25519", &32u32.to_be_bytes(), &[7; 32]].concat();
        let key = format!("ssh-ed25519 {}", data_encoding::BASE64.encode(&blob));
        Ok(Self {
            allocation: AllocationId::new(),
            project: ProjectId::new(),
            name: name.parse().map_err(|_| anyhow::anyhow!("{name} is no user name"))?,
            uid: uid
                .try_into()
                .map_err(|_| anyhow::anyhow!("{uid} is no tenant's uid"))?,
            key: key.parse().map_err(|_| anyhow::anyhow!("no key"))?,
        })
    }

    pub fn arrives(&self) -> Task {
        Task::ProvisionUser(provision_user::Params {
            allocation_id: self.allocation,
            username: self.name.clone(),
            uid: self.uid,
            ssh_public_keys: vec![self.key.clone()],
            gpu_access: false,
        })
    }

    pub fn leaves(&self) -> Task {
        Task::DeprovisionUser(deprovision_user::Params {
            allocation_id: self.allocation,
            username: self.name.clone(),
            uid: self.uid,
            remove_home: true,
        })
    }

    /// The wish and a task of it, signed as a replica would that has kept up with the keys.
    pub async fn ask(&self, fleet: &Fleet, node_id: NodeId, task: Task) -> anyhow::Result<(TaskId, OpId)> {
        fleet::trust::follow(fleet).await?;
        let wish = Wish::Machine {
            node_id,
            username: self.name.clone(),
            uid: self.uid,
            ssh_public_keys: vec![self.key.clone()],
            gpu_access: false,
        };
        let authorised = Authorised {
            allocation: self.allocation,
            project: self.project,
            generation: 1,
            wish,
        };
        let actor = Actor::system("guest");
        let mut change = fleet.app.db.change(&actor, "allocation.step", self.allocation).await?;
        let failed = |error: base::http::ApiError| anyhow::anyhow!("{}: {}", error.code, error.message);
        let (_, sha256) = sign(fleet, &mut change, &authorised).await.map_err(failed)?;
        let op = derive_op(self.allocation, task.task_type().as_str(), 1);
        let ask = Ask {
            node: node_id,
            task,
            cover: Cover::Intent { sha256, op },
        };
        let id = enqueue(fleet, &mut change, &ask).await.map_err(failed)?;
        change.commit().await?;
        Ok((id, op))
    }
}

#[derive(Deserialize)]
struct Effect {
    before: Vec<(String, u32, Option<String>)>,
    after: Vec<(String, u32, Option<String>)>,
}

/// How often each account appeared and vanished, as the pretended host saw it.
pub fn comings_and_goings(node: &SimNode) -> anyhow::Result<BTreeMap<String, (u32, u32)>> {
    let log = std::fs::read_to_string(node.dir.host().join("effects.jsonl")).context("the host's log")?;
    let mut seen: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for line in log.lines() {
        let effect: Effect = serde_json::from_str(line)?;
        for came in effect.after.iter().filter(|account| !effect.before.contains(account)) {
            seen.entry(came.0.clone()).or_default().0 += 1;
        }
        for went in effect.before.iter().filter(|account| !effect.after.contains(account)) {
            seen.entry(went.0.clone()).or_default().1 += 1;
        }
    }
    Ok(seen)
}

async fn signers(fleet: &Fleet) -> anyhow::Result<(u32, u32)> {
    let (signers, failed): (i64, i64) = sqlx::query_as(
        "select count(distinct keyid), count(*) filter (where state in ('failed', 'expired', 'cancelled')) from task",
    )
    .fetch_one(fleet.app.db.read())
    .await?;
    Ok((signers as u32, failed as u32))
}

/// Lines of the agent's log that tell of a request without a good answer.
fn unanswered(node: &SimNode) -> u32 {
    let log = std::fs::read_to_string(node.dir.log().join("agent.log")).unwrap_or_default();
    log.lines().filter(|line| line.contains("not answered")).count() as u32
}
