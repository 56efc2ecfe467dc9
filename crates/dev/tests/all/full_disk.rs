//! A node whose disk is full to the last byte: agent, executor, logs and all lie on a file system of a few MiB. It goes
//! on saying how it is, renews its certificates, brings the results that it has and takes nothing new; and when there
//! is room again it goes on by itself. An operator sees why it takes nothing, and what to do.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use base::config::Config;
use base::testing::eventually;
use dev::half::Odd;
use dev::simnode::{NodeDir, SimNode};
use dev::town::Town;
use host::pretend::Profile;
use model::api::{NodeView, TaskView};
use model::id::NodeId;
use model::signal::Code;
use model::state::{NodeState, TaskState};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::json;

use crate::EXE;
use crate::sweep::Talk;

const DISK_BYTES: u64 = 8 << 20;

/// A small file system, gone with its keeper.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf) -> std::io::Result<Self> {
        std::fs::create_dir_all(&at)?;
        let options = std::ffi::CString::new(format!("size={DISK_BYTES},mode=0700")).expect("no zero byte");
        mount("tmpfs", &at, "tmpfs", MountFlags::empty(), Some(options.as_c_str()))?;
        Ok(Self(at))
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }

    /// To the last byte, by pieces that get smaller.
    fn fill(&self) {
        let mut ballast = File::options()
            .create(true)
            .append(true)
            .open(self.ballast())
            .expect("a file");
        let mut piece = 1 << 20;
        while piece > 0 {
            match ballast.write(&vec![1; piece]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => piece /= 2,
                Err(error) => panic!("{error}"),
            }
        }
        let one_more = File::options()
            .append(true)
            .open(self.ballast())
            .expect("a file")
            .write(b"x");
        assert_eq!(one_more.map_err(|error| error.kind()), Err(ErrorKind::StorageFull));
    }

    fn free(&self) {
        std::fs::remove_file(self.ballast()).expect("removable");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.0, UnmountFlags::DETACH) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

fn hasty(config: &mut Config) {
    config.wait_hold_s = 1;
    config.working_cert_life_s = 8;
    config.device_cert_life_s = 30;
    config.heartbeat_stale_s = 20;
}

async fn probe(town: &Town, node: NodeId) -> TaskView {
    let path = format!("/v1/nodes/{node}/probe");
    town.api().post(&path, &json!({})).await.expect("a probe is asked for")
}

async fn until(town: &Town, node: NodeId, what: &str, seen: impl Fn(&NodeView) -> bool) -> NodeView {
    eventually(what, async || {
        let view = town.show_node(node).await;
        if seen(&view) {
            Ok(view)
        } else {
            Err(format!("{view:?}"))
        }
    })
    .await
}

fn generation(view: &NodeView) -> u64 {
    view.certificate
        .as_ref()
        .map_or(0, |certificate| certificate.generation)
}

fn trouble(view: &NodeView) -> Option<Code> {
    view.condition.as_ref().and_then(|condition| condition.trouble)
}

/// Takes the agent away between a claim and the end of its result's journey; tries until it was in time.
async fn with_a_result_pending(town: &Town, id: NodeId, node: &SimNode, socket: &Path) -> TaskView {
    eventually("a result that nobody has fetched", async || {
        let task = probe(town, id).await;
        town.until_task(task.id, |state| state != TaskState::Queued).await;
        node.agent.hold();
        // Whatever was under way in the executor ends within this.
        let pending = eventually("the executor is idle", async || {
            let mut talk = Talk::connect(socket, || false).ok_or("nobody listens")?;
            let state = talk.state().map_err(|ended| format!("{ended}"))?;
            let idle = state.tasks.iter().all(|held| held.phase == "result_pending");
            if idle {
                Ok(state.results_pending)
            } else {
                Err(format!("{:?}", state.tasks))
            }
        })
        .await;
        let task: TaskView = town
            .api()
            .get(&format!("/v1/tasks/{}", task.id))
            .await
            .expect("the task");
        if pending == 1 && !task.state.is_end() {
            return Ok(task);
        }
        node.agent.release();
        Err("the agent was too fast")
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_on_a_full_disk_renews_reports_and_takes_nothing_until_there_is_room() {
    let town = Town::tuned(EXE, hasty).await;
    let disk = match SmallDisk::mount(town.dir().join("small")) {
        Ok(disk) => disk,
        Err(error) => {
            town.end().await;
            eprintln!("not run: needs root: a small file system cannot be mounted: {error}");
            return;
        }
    };
    let enrolment = town.add_node("small").await;
    let id = enrolment.node.id;
    let dir = NodeDir::new(disk.0.join("node")).expect("a directory");
    SimNode::enrol(&dir, Profile::Cpu, &enrolment.token).expect("the host takes the token");
    let socket = dir.socket();
    let odd = Odd {
        journal_bytes: Some(256 << 10),
        min_free_bytes: Some(1 << 20),
        ..Odd::default()
    };
    let mut node = SimNode::odd(Path::new(EXE), "small", dir, Profile::Cpu, odd);
    town.until_node(id, NodeState::Ready).await;

    let pending = with_a_result_pending(&town, id, &node, &socket).await;
    disk.fill();
    node.executor.kill();
    node.agent.release();

    // Its result arrives, and it says what is wrong.
    let landed = town.until_task(pending.id, TaskState::is_end).await;
    assert_eq!(landed.state, TaskState::Succeeded, "{landed:?}");
    let full = until(&town, id, "it says that its disk is full", |view| {
        trouble(view) == Some(Code::DiskFull)
    })
    .await;
    let condition = full.condition.clone().expect("just seen");
    assert!(
        condition
            .disk
            .is_some_and(|disk| !disk.writable && disk.free_bytes < 4096),
        "{full:?}"
    );
    assert_eq!(condition.recovery.as_deref(), Some(Code::DiskFull.recovery()));
    let waiting = full.waiting.clone().expect("somebody may wait for it");
    assert_eq!(waiting.verb, "gpuaas explain disk_full");

    // Nothing is claimed; certificates are renewed, into either slot, by agents that start on the full disk too.
    let refused = probe(&town, id).await;
    let mut seen = generation(&full);
    for _ in 0..3 {
        let next = until(&town, id, "a certificate is renewed on the full disk", |view| {
            generation(view) > seen
        })
        .await;
        seen = generation(&next);
        assert_eq!(next.state, NodeState::Ready, "{next:?}");
        node.agent.kill();
        node.executor.kill();
    }
    let waits: TaskView = town
        .api()
        .get(&format!("/v1/tasks/{}", refused.id))
        .await
        .expect("the task");
    assert_eq!(waits.state, TaskState::Queued, "{waits:?}");
    let still = until(&town, id, "it still says so", |view| {
        trouble(view) == Some(Code::DiskFull)
    })
    .await;
    assert_eq!(
        still.condition.and_then(|c| c.trouble_since),
        full.condition.and_then(|c| c.trouble_since)
    );

    // Room: all by itself.
    disk.free();
    let done = town.until_task(refused.id, TaskState::is_end).await;
    assert_eq!(done.state, TaskState::Succeeded, "{done:?}");
    until(&town, id, "it is well again", |view| {
        trouble(view).is_none() && view.waiting.is_none()
    })
    .await;
    node.stop();
    drop(disk);
    town.end().await;
}
