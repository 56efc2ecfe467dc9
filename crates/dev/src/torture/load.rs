//! The load: in each slot of each node one tenant after the other moves in and out again, asked for by a worker that
//! repeats itself until it is answered, and watched by a person who does the same.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::api::TaskView;
use model::digest::Sha256;
use model::id::{NodeId, TaskId};
use model::node_api::{TaskAnswer, TaskRequest};
use model::signal::Code;
use model::state::TaskState;

use super::stage::Stage;
use super::witness::{IN, OUT, Witness};
use crate::history::{History, What};
use crate::killer::Kills;
use crate::tenant::Tenant;

/// The first tenant's uid; each slot has one for whoever lives in it.
const FIRST_UID: u32 = 20_001;
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// One tenant in so many has the host looked at while they live there.
const PROBE_EVERY: u64 = 8;

/// A clock that is wrong is not right again at once.
const RIGHT_AFTER: Duration = Duration::from_millis(500);

/// Is it what a node says of a task when it will not begin it by the clock?
fn of_clocks(code: Code) -> bool {
    [Code::ClockSkew, Code::NotYetValid, Code::StartByPassed].contains(&code)
}

/// What all slots write down together.
pub(super) struct Book {
    wanted: u64,
    until: Instant,
    closed: AtomicBool,
    begun: AtomicU64,
    ended: AtomicU64,
    slice_tasks: AtomicU64,
    tenants: AtomicU64,
    asked_again: AtomicU64,
    seen: Mutex<Seen>,
}

struct Seen {
    history: History,
    witnesses: Vec<Witness>,
}

impl Book {
    /// For so many tasks at least, and until then.
    pub(super) fn new(wanted: u64, until: Instant, stage: &Stage) -> Self {
        let witnesses = stage
            .nodes
            .iter()
            .map(|(_, node)| Witness::new(&node.name, node.dir.host()))
            .collect();
        Self {
            wanted,
            until,
            closed: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            slice_tasks: AtomicU64::new(0),
            tenants: AtomicU64::new(0),
            asked_again: AtomicU64::new(0),
            seen: Mutex::new(Seen {
                history: History::default(),
                witnesses,
            }),
        }
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    pub(super) fn wanted(&self) -> u64 {
        self.wanted
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    pub(super) fn slice_tasks(&self) -> u64 {
        self.slice_tasks.load(Ordering::SeqCst)
    }

    pub(super) fn slice_task_ended(&self) {
        self.slice_tasks.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn asked_again(&self) -> u64 {
        self.asked_again.load(Ordering::SeqCst)
    }

    /// No new tenant from now on; who is there moves out.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// The next tenant's number, and whether the host is looked at while they live there; none when there were enough.
    fn next(&self) -> Option<(u64, bool)> {
        if self.enough() {
            return None;
        }
        let tenant = self.tenants.fetch_add(1, Ordering::SeqCst);
        let probes = tenant.is_multiple_of(PROBE_EVERY);
        self.begun.fetch_add(2 + u64::from(probes), Ordering::SeqCst);
        Some((tenant, probes))
    }

    /// The next renter's number; none when there were enough.
    pub(super) fn next_renter(&self) -> Option<u64> {
        if self.enough() {
            return None;
        }
        self.begun.fetch_add(2, Ordering::SeqCst);
        Some(self.tenants.fetch_add(1, Ordering::SeqCst))
    }

    fn enough(&self) -> bool {
        let enough = self.begun() >= self.wanted && Instant::now() >= self.until;
        enough || self.closed.load(Ordering::SeqCst)
    }

    fn put(&self, keys: &[String], what: &What) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            seen.history.put(key.clone(), what.clone());
        }
    }

    /// First what the host has to say, then what somebody was told.
    fn told(&self, node: usize, keys: &[String], what: &What) -> anyhow::Result<()> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Seen { history, witnesses } = &mut *seen;
        witnesses[node].look(history)?;
        drop(seen);
        self.put(keys, what);
        self.ended.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// The whole history, to the last word of every host.
    pub(super) fn history(&self) -> anyhow::Result<History> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Seen { history, witnesses } = &mut *seen;
        for witness in witnesses {
            witness.look(history)?;
        }
        Ok(std::mem::take(history))
    }
}

/// One slot of one node.
pub(super) struct Slot {
    pub(super) stage: Arc<Stage>,
    pub(super) book: Arc<Book>,
    pub(super) kills: Arc<Kills>,
    pub(super) node: usize,
    pub(super) slot: u32,
    pub(super) clock_jumps: bool,
}

impl Slot {
    /// Until there were tenants enough.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        loop {
            while !self.kills.keep_step(self.book.begun(), self.book.wanted) {
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            let Some((number, probes)) = self.book.next() else {
                return Ok(());
            };
            let (id, node) = &self.stage.nodes[self.node];
            let name = format!("t{number}");
            let tenant = Tenant::new(&name, FIRST_UID + self.slot);
            let intent = self.intent(*id, &tenant).await;
            let keys = |verbs: [&str; 3]| verbs.map(|verb| Witness::key(&node.name, &name, verb));
            self.ask(tenant.request(*id, intent, &tenant.provision()), &keys(IN))
                .await?;
            if probes {
                self.probe(&format!("{}/{name} probe", node.name)).await?;
            }
            self.ask(tenant.request(*id, intent, &tenant.deprovision()), &keys(OUT))
                .await?;
        }
    }

    async fn intent(&self, node: NodeId, tenant: &Tenant) -> Sha256 {
        loop {
            match tenant.sign(&self.stage.fleet, node).await {
                Ok(intent) => return intent,
                Err(error) => self.again("intent", &error.to_string()).await,
            }
        }
    }

    /// One operation, from the wish to its end. What was lost on the way is asked for again, as the same operation.
    pub(super) async fn ask(&self, request: TaskRequest, keys: &[String]) -> anyhow::Result<()> {
        self.book.put(keys, &What::Invoke);
        loop {
            let id = self.asked(&request, keys).await?;
            if self.until_ended(id, keys).await? {
                return Ok(());
            }
        }
    }

    async fn asked(&self, request: &TaskRequest, keys: &[String]) -> anyhow::Result<TaskId> {
        loop {
            let sent = self.stage.worker.post("/internal/v1/tasks").json(request)?.send().await;
            match sent {
                Ok(answer) if answer.status.is_success() => return Ok(answer.json::<TaskAnswer>()?.task_id),
                Ok(answer) => {
                    let code = answer.error().map(|body| body.code);
                    self.again(&request.task_type, &format!("{} {code:?}", answer.status))
                        .await;
                }
                Err(error) => {
                    self.book.put(keys, &What::Info);
                    self.again(&request.task_type, &error.to_string()).await;
                }
            }
        }
    }

    async fn probe(&self, key: &str) -> anyhow::Result<()> {
        let keys = [key.to_owned()];
        let path = format!("/v1/nodes/{}/probe", self.stage.nodes[self.node].0);
        self.book.put(&keys, &What::Invoke);
        loop {
            match self.stage.api.post::<TaskView>(&path, &serde_json::json!({})).await {
                Ok(task) if self.until_ended(task.id, &keys).await? => return Ok(()),
                Ok(_) => {}
                Err(error) => {
                    self.book.put(&keys, &What::Info);
                    self.again("probe", &format!("{error:#}")).await;
                }
            }
        }
    }

    /// False: its node never began it, because clocks disagreed, and it has to be asked for again.
    async fn until_ended(&self, id: TaskId, keys: &[String]) -> anyhow::Result<bool> {
        let mut version = 0;
        loop {
            let path = format!("/v1/tasks/{id}?changed_since={version}&wait_s=5");
            let task = match self.stage.api.get::<TaskView>(&path).await {
                Ok(task) => task,
                Err(error) => {
                    self.again("watch", &format!("{error:#}")).await;
                    continue;
                }
            };
            let what = match task.state {
                TaskState::Succeeded => What::Ok,
                TaskState::Failed if self.clock_jumps && task.code.is_some_and(of_clocks) => {
                    self.book.put(keys, &What::Info);
                    tokio::time::sleep(RIGHT_AFTER).await;
                    return Ok(false);
                }
                TaskState::Failed | TaskState::Expired | TaskState::Cancelled => {
                    What::Fail(format!("{id} {}: {:?} {:?}", task.state, task.code, task.detail))
                }
                TaskState::Queued | TaskState::Dispatched | TaskState::Started | TaskState::Unknown => {
                    version = task.version;
                    continue;
                }
            };
            return self.book.told(self.node, keys, &what).map(|()| true);
        }
    }

    pub(super) async fn again(&self, what: &str, why: &str) {
        tracing::debug!(what, why, "asked again");
        self.book.asked_again.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}
