//! From claimed to done: one thread per task, started when it is claimed and again after a restart. It promises that a
//! task which was claimed ends in exactly one signed result, and that an undo is never cut short. An undo that fails
//! ends it as failed, `stuck`: there is no verb to try it again alone, the operation's next task makes sure of
//! everything anew. What another build has begun and this one cannot go on with gets no result: it stays open, the
//! node says `stuck` and takes nothing new. The operator's verb for that is to start the build that began it; it goes
//! on from the journal, which was not touched.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::envelope::{self, Times};
use model::id::TaskId;
use model::outcome::Outcome;
use model::signal::Code;
use model::socket::FromExecutor;
use model::task::Task;
use model::time::Timestamp;
use steps::{Fail, Record, Watch, Way};

use crate::journal::{Done, Entry, Open, Started, Step};
use crate::node::{Node, Running};
use crate::policy::Policy;
use crate::result::Ending;
use crate::tasks::{self, Sources, Surroundings};

/// The phase of a task whose VM is just being made whole, after a start of the host for instance.
const WAITS: &str = "waits_for_upkeep";

/// Gives every open task a thread, if it has none yet.
pub(crate) fn start_claimed(node: &Arc<Node>) {
    for (task_id, task, open, running) in without_thread(node) {
        let shared = Arc::clone(node);
        let spawned = node.spawn("task", move || {
            let ended = Worker {
                node: &shared,
                running: &running,
                open,
            }
            .work(&task);
            if let Err(code) = ended {
                // Stopping, or the journal failed: either way the next start goes on.
                tracing::info!(%task_id, %code, "task left to the next start");
            }
        });
        if let Err(error) = spawned {
            node.give_up(anyhow::Error::new(error).context("start a thread"));
        }
    }
}

/// Decided under the journal's lock, which a task also holds while it ends: one that has just ended is not begun again.
fn without_thread(node: &Node) -> Vec<(TaskId, Task, Open, Arc<Running>)> {
    let Ok(journal) = node.journal() else { return Vec::new() };
    let mut all = node.running();
    let mut found = Vec::new();
    for (task_id, open) in journal.book().open() {
        if all.contains_key(&task_id) {
            continue;
        }
        let payload = &open.payload;
        let parsed = Task::parse(&payload.task_type, payload.type_version, &payload.params);
        let Ok(task) = parsed else {
            // Another build has claimed it.
            tracing::error!(%task_id, task_type = payload.task_type, "held task is unknown to this build");
            node.strand(task_id);
            continue;
        };
        let keyid = open
            .claimed
            .envelope
            .signatures
            .first()
            .map(|signature| signature.keyid);
        let running = Arc::new(Running::new(open.claimed.fence, keyid));
        all.insert(task_id, Arc::clone(&running));
        found.push((task_id, task, open.clone(), running));
    }
    found
}

struct Worker<'a> {
    node: &'a Node,
    running: &'a Arc<Running>,
    open: Open,
}

impl Worker<'_> {
    fn work(mut self, task: &Task) -> Result<(), Code> {
        let Some(started_at) = self.open.started_at else {
            if let Some(ending) = self.too_late() {
                return self.finish(ending);
            }
            return self.start().and_then(|at| self.walk(task, at));
        };
        // Whoever was told to turn back before the restart is told again: that order was only in memory.
        if self.key_revoked() {
            self.running.interrupt(Code::KeyRevoked);
        }
        self.walk(task, started_at)
    }

    /// Judged again right before it starts: it may have waited through a restart.
    fn too_late(&self) -> Option<Ending> {
        let clock = self.node.options.clock.now();
        let floor = match self.node.journal() {
            Ok(journal) => journal.book().floor().time,
            Err(_) => clock,
        };
        let times = Times {
            clock,
            floor,
            server: None,
        };
        if envelope::startable(&self.open.payload, times).is_err() {
            return Some(Ending::without_start(Outcome::Expired, Code::TaskExpired));
        }
        if self.key_revoked() {
            return Some(Ending::without_start(Outcome::Cancelled, Code::KeyRevoked));
        }
        None
    }

    fn key_revoked(&self) -> bool {
        let store = self.node.trust();
        let (Some(trust), Some(keyid)) = (store.trust(), self.running.keyid) else {
            return false;
        };
        trust.manifest().revokes(&keyid)
    }

    fn start(&mut self) -> Result<Timestamp, Code> {
        let (task_id, at) = (self.open.claimed.task_id, self.node.options.clock.now());
        let mut journal = self.node.journal()?;
        self.node
            .record(&mut journal, Entry::Started(Started { task_id, at }))?;
        self.open.started_at = Some(at);
        Ok(at)
    }

    fn walk(self, task: &Task, started_at: Timestamp) -> Result<(), Code> {
        let task_id = self.open.claimed.task_id;
        self.running.enters(self.node, task_id, "started", Some(started_at));
        let limit = Duration::from_secs(u64::from(self.open.payload.max_runtime_s));
        let ran_ms = self.node.options.clock.now().since_ms(started_at).max(0);
        let ran = Duration::from_millis(ran_ms.unsigned_abs());
        let began = Instant::now();
        let deadline = began + limit.saturating_sub(ran);
        let mut watch = Watcher {
            node: self.node,
            running: self.running,
            task_id,
            began,
            deadline,
            may_cancel: !tasks::forward_only(task.task_type()),
        };
        let mut journal = WalkJournal {
            node: self.node,
            task_id,
        };
        let payload = &self.open.payload;
        let policy = self.policy();
        let around = Surroundings {
            op_id: payload.op_id,
            task_id,
            epoch: payload.node_epoch,
            clock: self.node.options.clock.clone(),
            node_id: self.open.payload.node_id,
            slices: policy.clone().slices(),
            sources: self.sources(policy, deadline),
            host: self.node.options.host.clone(),
            state_dir: self.node.options.state_dir.clone(),
            journal_used_pct: self.node.journal()?.used_pct(),
            clock_skew_ms: self.open.claimed.clock_skew_ms,
        };
        let waits = || self.running.enters(self.node, task_id, WAITS, None);
        let _mine = task
            .allocation()
            .map(|allocation| self.node.busy.take(allocation, waits));
        // What does not die holds the disk, and whoever opens that is refused; so the walk says what comes of it.
        let together = around
            .host
            .operations
            .enter(payload.op_id)
            .inspect_err(|error| tracing::error!(%task_id, %error, "what an earlier life started is not gone"));
        let walked = tasks::walk(task, &around, &mut journal, &self.open.records, &mut watch);
        // Before anybody hears of its end.
        drop(together);
        let ending = match walked {
            Ok(walked) if walked.report.needs_another_build() => {
                tracing::error!(%task_id, end = ?walked.report.end, "another build has begun this task");
                self.running.enters(self.node, task_id, "stuck", None);
                self.node.strand(task_id);
                return Ok(());
            }
            Ok(walked) => Ending::of_walk(&walked.report, walked.proofs, walked.output),
            Err(steps::Error::Journal(code)) => return Err(code),
            Err(steps::Error::Facts(error)) => {
                self.node
                    .give_up(anyhow::Error::new(error).context("write a task's facts"));
                return Err(Code::Internal);
            }
        };
        self.finish(ending)
    }

    /// As root has decided by now. What cannot be read says nothing, and whoever needs it says what is missing.
    fn policy(&self) -> Policy {
        Policy::read(&self.node.options.policy_path).unwrap_or_else(|error| {
            tracing::error!(error = format!("{error:#}"), "local policy cannot be read");
            Policy::default()
        })
    }

    fn sources(&self, policy: Policy, deadline: Instant) -> Sources {
        let trust = self.node.trust();
        let catalogue = trust.trust().and_then(|trust| self.node.catalogue().current(trust));
        let (running, moving) = (Arc::clone(self.running), Arc::clone(self.running));
        let (outlet, task_id) = (Arc::clone(&self.node.outlet), self.open.claimed.task_id);
        Sources {
            catalogue: catalogue.map(Arc::new),
            hosts: policy.image_hosts,
            errands: Arc::clone(&self.node.options.errands),
            over: Arc::new(move || running.interrupted()),
            moved: Arc::new(move |progress| moving.moves(&outlet, task_id, progress)),
            deadline,
        }
    }

    /// The result is durable before anybody hears of it.
    fn finish(self, ending: Ending) -> Result<(), Code> {
        let (task_id, fence) = (self.open.claimed.task_id, self.open.claimed.fence);
        let (outcome, code) = (ending.outcome, ending.code);
        let envelope = {
            let mut journal = self.node.journal()?;
            let (now, seq) = (self.node.options.clock.now(), journal.next_seq());
            let result = ending.sign(&self.open, now, seq, &self.node.keys.result)?;
            let (start_by, started_at) = (self.open.payload.start_by, self.open.started_at);
            let envelope = result.clone();
            let done = Done {
                task_id,
                fence,
                payload_sha256: self.open.claimed.envelope.payload_digest(),
                refused: false,
                start_by,
                started_at,
                result,
            };
            self.node.record(&mut journal, Entry::Done(done))?;
            envelope
        };
        let code = code.map(Code::as_str);
        tracing::info!(%task_id, fence, ?outcome, code, "task done");
        self.node.running().remove(&task_id);
        self.node.outlet.send(FromExecutor::Done {
            task_id,
            fence,
            envelope,
        });
        Ok(())
    }
}

/// The journal as the steps see it. While the executor stops it takes nothing: the walk ends as if the process had
/// died there, and is resumed from there.
struct WalkJournal<'a> {
    node: &'a Node,
    task_id: TaskId,
}

impl steps::Journal for WalkJournal<'_> {
    type Error = Code;

    fn append(&mut self, record: &Record) -> Result<(), Code> {
        let (task_id, record) = (self.task_id, record.clone());
        let mut journal = self.node.journal()?;
        self.node
            .record(&mut journal, Entry::Step(Step { task_id, record }))
            .map(drop)
    }
}

struct Watcher<'a> {
    node: &'a Node,
    running: &'a Running,
    task_id: TaskId,
    began: Instant,
    deadline: Instant,
    /// What takes something away is not stopped half-way, whoever asks.
    may_cancel: bool,
}

impl Watch for Watcher<'_> {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn interrupted(&self) -> Option<Fail> {
        let asked = self.running.interrupted().filter(|_| self.may_cancel);
        let late = (Instant::now() >= self.deadline).then_some(Code::RuntimeExceeded);
        asked.or(late).map(|code| Fail::new(code.as_str(), code.meaning()))
    }

    fn begins(&mut self, way: Way, step: &'static str) {
        let phase = match way {
            Way::Run => step.to_owned(),
            Way::Undo => format!("undo_{step}"),
        };
        self.running.enters(self.node, self.task_id, &phase, None);
    }
}
