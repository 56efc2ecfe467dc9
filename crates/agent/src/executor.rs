//! The agent's end of the Unix socket. It reconnects for as long as the agent lives; on every connection it says
//! hello and asks for the results that nobody has acknowledged. Whoever waits for an answer when the connection
//! ends gets an error, never silence.

mod link;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::digest::Sha256;
use model::dsse::Envelope;
use model::id::TaskId;
use model::node_api::{CertificateKind, OfferedTask};
use model::signal::Code;
use model::socket::{Enrolled, EnrolmentKeys, ExecutorState, FromAgent, FromExecutor, WantedImage};
use model::telemetry::Registered;
use model::time::Timestamp;
use model::trust::Bundle;
use model::value::Name;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use wire::stop::Stop;

use crate::pace::Pace;

#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    #[error("the executor does not answer")]
    Unreachable,
    #[error("the executor refuses: {code}: {detail}")]
    Refused { code: Code, detail: String },
    #[error("the executor gave an answer to another question")]
    Confused,
}

/// A signed result that waits for its acknowledgement.
#[derive(Clone, Debug)]
pub struct Done {
    pub task_id: TaskId,
    pub fence: u64,
    pub envelope: Envelope,
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in the journal, or already has its result.
    Taken,
    NotTaken(Code),
}

/// What it needs a network for.
#[derive(Clone, Debug)]
pub(crate) enum Errand {
    Image(WantedImage),
    /// Nobody waits for it any more.
    Settled(Sha256),
    Guest {
        want: u64,
        vm: Name,
        address: Ipv4Addr,
    },
}

/// A message, perhaps with an open file or socket.
type Outgoing = (FromAgent, Option<OwnedFd>);

#[derive(Clone, Debug)]
pub struct Executor {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    answer_within: Duration,
    next_request: AtomicU64,
    inner: Mutex<Inner>,
    state: watch::Sender<Option<Arc<ExecutorState>>>,
    results: mpsc::Sender<Done>,
    errands: mpsc::Sender<Errand>,
    /// Until somebody runs them.
    asked: Mutex<Option<mpsc::Receiver<Errand>>>,
    /// A task moved: whoever reports to the control plane should.
    moved: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    outgoing: Option<mpsc::UnboundedSender<Outgoing>>,
    questions: HashMap<u64, oneshot::Sender<FromExecutor>>,
    offers: HashMap<TaskId, oneshot::Sender<Verdict>>,
}

impl Executor {
    /// The handle, and where results arrive. Nothing happens until `run`.
    pub fn new(path: PathBuf, pace: &Pace) -> (Self, mpsc::Receiver<Done>) {
        let (results, arrivals) = mpsc::channel(64);
        let (errands, asked) = mpsc::channel(256);
        let shared = Shared {
            path,
            answer_within: pace.executor_answer,
            next_request: AtomicU64::new(1),
            inner: Mutex::default(),
            state: watch::Sender::new(None),
            results,
            errands,
            asked: Mutex::new(Some(asked)),
            moved: Notify::new(),
        };
        (
            Self {
                shared: Arc::new(shared),
            },
            arrivals,
        )
    }

    /// Keeps a connection until stopped.
    pub async fn run(&self, pace: &Pace, stop: &Stop) {
        let mut backoff = pace.executor_backoff();
        let mut told = false;
        while !stop.is_stopped() {
            let lived = stop.or(link::connection(&self.shared)).await;
            if self.is_connected() {
                backoff.reset();
                told = false;
            }
            self.disconnected();
            let Some(ended) = lived else {
                return;
            };
            // Said once per absence, not once per try.
            if !std::mem::replace(&mut told, true) {
                let error = ended.err().map(|error| error.to_string());
                tracing::warn!(code = %Code::ExecutorUnreachable, error, "no connection to the executor");
            }
            if !backoff.wait(stop).await {
                return;
            }
        }
    }

    /// As of the last word from it; none while there is no connection.
    pub fn state(&self) -> Option<Arc<ExecutorState>> {
        self.shared.state.borrow().clone()
    }

    pub fn is_connected(&self) -> bool {
        self.shared.state.borrow().is_some()
    }

    /// Waits until there is a connection and it has said who it is.
    pub async fn connected(&self) -> Arc<ExecutorState> {
        let mut watch = self.shared.state.subscribe();
        loop {
            if let Some(state) = watch.borrow_and_update().clone() {
                return state;
            }
            if watch.changed().await.is_err() {
                // The sender lives in `shared`, which we hold.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Completes when a task was accepted or moved on since the last call.
    pub async fn moved(&self) {
        self.shared.moved.notified().await;
    }

    pub async fn hello(&self) -> Result<Arc<ExecutorState>, ExecutorError> {
        match self.ask(|request_id| FromAgent::Hello { request_id }).await? {
            FromExecutor::State { state, .. } => Ok(Arc::new(*state)),
            _ => Err(ExecutorError::Confused),
        }
    }

    pub async fn enrol_keys(&self) -> Result<EnrolmentKeys, ExecutorError> {
        match self.ask(|request_id| FromAgent::EnrolKeys { request_id }).await? {
            FromExecutor::Keys { keys, .. } => Ok(*keys),
            _ => Err(ExecutorError::Confused),
        }
    }

    pub async fn enrolled(&self, enrolled: Enrolled) -> Result<(), ExecutorError> {
        let enrolled = Box::new(enrolled);
        self.ask_ok(|request_id| FromAgent::Enrolled { request_id, enrolled })
            .await
    }

    /// A token that vouches for a certificate request; for the device's own certificate it comes with the request.
    pub async fn renew_token(
        &self,
        kind: CertificateKind,
        working_csr: Option<String>,
        server_time: Timestamp,
    ) -> Result<(String, Option<String>), ExecutorError> {
        let ask = |request_id| FromAgent::RenewToken {
            request_id,
            kind,
            working_csr,
            server_time,
        };
        match self.ask(ask).await? {
            FromExecutor::Token { jwt, device_csr, .. } => Ok((jwt, device_csr)),
            _ => Err(ExecutorError::Confused),
        }
    }

    pub async fn device_chain(&self, chain: String) -> Result<(), ExecutorError> {
        self.ask_ok(|request_id| FromAgent::DeviceChain { request_id, chain })
            .await
    }

    /// Which guests may send numbers, and the addresses to which they do.
    pub async fn guests(&self) -> Result<(Vec<Registered>, Vec<Ipv4Addr>), ExecutorError> {
        match self.ask(|request_id| FromAgent::Guests { request_id }).await? {
            FromExecutor::Guests { guests, listen, .. } => Ok((guests, listen)),
            _ => Err(ExecutorError::Confused),
        }
    }

    /// What it holds now, in its own signed words.
    pub async fn held(&self) -> Result<Envelope, ExecutorError> {
        match self.ask(|request_id| FromAgent::Held { request_id }).await? {
            FromExecutor::Held { envelope, .. } => Ok(envelope),
            _ => Err(ExecutorError::Confused),
        }
    }

    /// The manifest version that it trusts afterwards.
    pub async fn trust(&self, bundle: Bundle) -> Result<u64, ExecutorError> {
        let bundle = Box::new(bundle);
        match self.ask(|request_id| FromAgent::Trust { request_id, bundle }).await? {
            FromExecutor::Trusted { manifest_version, .. } => {
                self.shared.state.send_modify(|state| {
                    if let Some(state) = state {
                        Arc::make_mut(state).manifest_version = manifest_version;
                    }
                });
                Ok(manifest_version)
            }
            _ => Err(ExecutorError::Confused),
        }
    }

    /// Hands a task over and waits until it is journalled or not taken.
    pub async fn offer(&self, task: OfferedTask, server_time: Timestamp) -> Result<Verdict, ExecutorError> {
        let (verdict, arrives) = oneshot::channel();
        self.inner().offers.insert(task.task_id, verdict);
        let OfferedTask {
            task_id,
            fence,
            envelope,
            ..
        } = task;
        let told = self.tell(FromAgent::Offer {
            task_id,
            fence,
            envelope,
            server_time,
        });
        let verdict = match told {
            Ok(()) => within(self.shared.answer_within, arrives).await,
            Err(error) => Err(error),
        };
        if verdict.is_err() {
            // Nobody waits any more; an answer that still comes is told again with the next offer.
            self.inner().offers.remove(&task_id);
        }
        verdict
    }

    pub fn tell(&self, message: FromAgent) -> Result<(), ExecutorError> {
        self.send((message, None))
    }

    /// A message that comes with an open file or socket.
    pub(crate) fn hand_over(&self, message: FromAgent, fd: OwnedFd) -> Result<(), ExecutorError> {
        self.send((message, Some(fd)))
    }

    fn send(&self, outgoing: Outgoing) -> Result<(), ExecutorError> {
        let inner = self.inner();
        let queue = inner.outgoing.as_ref().ok_or(ExecutorError::Unreachable)?;
        queue.send(outgoing).map_err(|_| ExecutorError::Unreachable)
    }

    /// Where its errands arrive; once.
    pub(crate) fn errands(&self) -> Option<mpsc::Receiver<Errand>> {
        let mut asked = self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.take()
    }

    /// The version of the image catalogue that it goes by afterwards.
    pub async fn catalogue(&self, catalogue: Envelope) -> Result<u64, ExecutorError> {
        let catalogue = Box::new(catalogue);
        let ask = |request_id| FromAgent::Catalogue { request_id, catalogue };
        match self.ask(ask).await? {
            FromExecutor::Catalogued { catalogue_version, .. } => {
                self.shared.state.send_modify(|state| {
                    if let Some(state) = state {
                        Arc::make_mut(state).catalogue_version = Some(catalogue_version);
                    }
                });
                Ok(catalogue_version)
            }
            _ => Err(ExecutorError::Confused),
        }
    }

    async fn ask_ok(&self, message: impl FnOnce(u64) -> FromAgent) -> Result<(), ExecutorError> {
        match self.ask(message).await? {
            FromExecutor::Ok { .. } => Ok(()),
            _ => Err(ExecutorError::Confused),
        }
    }

    async fn ask(&self, message: impl FnOnce(u64) -> FromAgent) -> Result<FromExecutor, ExecutorError> {
        let request_id = self.shared.next_request.fetch_add(1, Ordering::Relaxed);
        let (answer, arrives) = oneshot::channel();
        self.inner().questions.insert(request_id, answer);
        let outcome = match self.tell(message(request_id)) {
            Ok(()) => within(self.shared.answer_within, arrives).await,
            Err(error) => Err(error),
        };
        self.inner().questions.remove(&request_id);
        match outcome? {
            FromExecutor::Failed { code, detail, .. } => Err(ExecutorError::Refused { code, detail }),
            answer => Ok(answer),
        }
    }

    /// Everybody who waits hears that nothing will come.
    fn disconnected(&self) {
        *self.inner() = Inner::default();
        self.shared.state.send_if_modified(|state| state.take().is_some());
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.shared.inner()
    }
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn within<T>(limit: Duration, arrives: oneshot::Receiver<T>) -> Result<T, ExecutorError> {
    match tokio::time::timeout(limit, arrives).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) | Err(_) => Err(ExecutorError::Unreachable),
    }
}
