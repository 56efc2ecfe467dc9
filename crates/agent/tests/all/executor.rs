//! An executor played by the test: it answers as the real one would and notes what it hears.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use model::dsse;
use model::id::TaskId;
use model::key::SigningKey;
use model::node_api::{Facts, Hardware, HeldTask};
use model::socket::{self, EnrolmentKeys, ExecutorState, FromAgent, FromExecutor, NodeIdentity};
use rcgen::{CertificateParams, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use crate::journal::Journal;

#[derive(Clone)]
pub(crate) struct Executor {
    pub(crate) path: PathBuf,
    pub(crate) journal: Journal,
    /// A real host, which has to refuse a development CA.
    pub(crate) real: bool,
    keys: Arc<(KeyPair, SigningKey)>,
    memory: Arc<Mutex<Memory>>,
}

/// What survives a restart.
#[derive(Default)]
struct Memory {
    identity: Option<NodeIdentity>,
    manifest_version: u64,
    catalogue_version: u64,
    wants: Vec<FromExecutor>,
    results: Vec<(TaskId, u64)>,
}

/// A running one; dropping it kills it.
pub(crate) struct Running(JoinHandle<()>, PathBuf);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
        std::fs::remove_file(&self.1).ok();
    }
}

impl Executor {
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            path: dir.join("executor.sock"),
            journal: Journal::default(),
            real: false,
            keys: Arc::new((KeyPair::generate().expect("key"), SigningKey::generate())),
            memory: Arc::default(),
        }
    }

    /// Said after every hello from now on.
    pub(crate) fn wants(&self, want: FromExecutor) {
        self.memory.lock().expect("memory").wants = vec![want];
    }

    pub(crate) fn start(&self) -> Running {
        let listener = UnixListener::bind(&self.path).expect("listen");
        let executor = self.clone();
        let task = tokio::spawn(async move {
            // One agent at a time, as in life; when this task dies, so does its connection.
            while let Ok((stream, _)) = listener.accept().await {
                executor.journal.note("connected");
                executor.talk(stream).await;
            }
        });
        Running(task, self.path.clone())
    }

    async fn talk(&self, mut stream: UnixStream) {
        loop {
            let mut header = [0; 4];
            if stream.read_exact(&mut header).await.is_err() {
                return;
            }
            let mut body = vec![0; socket::body_length(header).expect("length")];
            stream.read_exact(&mut body).await.expect("body");
            for answer in self.answers(socket::decode(&body).expect("message")) {
                let frame = socket::encode(&answer).expect("frame");
                if stream.write_all(&frame).await.is_err() {
                    return;
                }
            }
        }
    }

    fn answers(&self, message: FromAgent) -> Vec<FromExecutor> {
        let mut memory = self.memory.lock().expect("memory");
        match message {
            FromAgent::Hello { request_id } => {
                let state = Box::new(self.state(&memory));
                let mut said = vec![FromExecutor::State { request_id, state }];
                said.extend(memory.wants.iter().cloned());
                said
            }
            FromAgent::Offer { task_id, fence, .. } => {
                self.journal.note(format!("offer {task_id}"));
                memory.results.push((task_id, fence));
                vec![FromExecutor::Accepted { task_id, fence }, self.done(task_id, fence)]
            }
            FromAgent::Acked { task_id, status } => {
                memory.results.retain(|(pending, _)| *pending != task_id);
                self.journal.note(format!("acked {task_id} {status}"));
                vec![]
            }
            FromAgent::Cancel { task_id } => {
                self.journal.note(format!("cancel {task_id}"));
                vec![]
            }
            FromAgent::Results {} => memory
                .results
                .iter()
                .map(|(task_id, fence)| self.done(*task_id, *fence))
                .collect(),
            FromAgent::Trust { request_id, .. } => {
                memory.manifest_version += 1;
                self.journal.note(format!("trust {}", memory.manifest_version));
                vec![FromExecutor::Trusted {
                    request_id,
                    manifest_version: memory.manifest_version,
                }]
            }
            FromAgent::Catalogue { request_id, .. } => {
                memory.catalogue_version += 1;
                self.journal.note(format!("catalogue {}", memory.catalogue_version));
                vec![FromExecutor::Catalogued {
                    request_id,
                    catalogue_version: memory.catalogue_version,
                }]
            }
            FromAgent::Image { sha256 } => {
                self.journal.note(format!("image {sha256}"));
                vec![]
            }
            FromAgent::ImageMoved { done_bytes, .. } => {
                self.journal.note(format!("image moved {done_bytes}"));
                vec![]
            }
            FromAgent::ImageFailed { code, detail, .. } => {
                self.journal.note(format!("image failed {code}: {detail}"));
                vec![]
            }
            FromAgent::Guest { want } => {
                self.journal.note(format!("guest {want}"));
                vec![]
            }
            FromAgent::GuestFailed { want, .. } => {
                self.journal.note(format!("guest failed {want}"));
                vec![]
            }
            FromAgent::EnrolKeys { request_id } => {
                let keys = EnrolmentKeys {
                    device_csr: self.csr(),
                    result_public: self.keys.1.public(),
                    hardware: Hardware::default(),
                    facts: Facts::default(),
                    simulated: !self.real,
                    version: "0.1.0".to_owned(),
                };
                vec![FromExecutor::Keys {
                    request_id,
                    keys: Box::new(keys),
                }]
            }
            FromAgent::Enrolled { request_id, enrolled } => {
                self.journal.note(format!("enrolled epoch {}", enrolled.epoch));
                memory.identity = Some(NodeIdentity {
                    installation: enrolled.installation,
                    node_id: enrolled.node_id,
                    epoch: enrolled.epoch,
                });
                memory.manifest_version = 1;
                vec![FromExecutor::Ok { request_id }]
            }
            FromAgent::RenewToken {
                request_id,
                kind,
                working_csr,
                server_time,
            } => {
                let device_csr = working_csr.is_none().then(|| self.csr());
                self.journal.note(format!("token {kind:?}"));
                vec![FromExecutor::Token {
                    request_id,
                    jwt: server_time.to_string(),
                    device_csr,
                }]
            }
            FromAgent::Guests { request_id } => {
                let (guests, listen) = (Vec::new(), Vec::new());
                vec![FromExecutor::Guests {
                    request_id,
                    guests,
                    listen,
                }]
            }
            FromAgent::Held { request_id } => {
                vec![FromExecutor::Failed {
                    request_id,
                    code: model::signal::Code::NodeBusy,
                    detail: "this one holds nothing".to_owned(),
                }]
            }
            FromAgent::DeviceChain { request_id, .. } => {
                self.journal.note("device chain");
                vec![FromExecutor::Ok { request_id }]
            }
        }
    }

    fn csr(&self) -> String {
        CertificateParams::default()
            .serialize_request(&self.keys.0)
            .expect("request")
            .pem()
            .expect("pem")
    }

    fn done(&self, task_id: TaskId, fence: u64) -> FromExecutor {
        let envelope = dsse::sign("test/result", task_id.to_string().as_bytes(), &[&self.keys.1]);
        FromExecutor::Done {
            task_id,
            fence,
            envelope,
        }
    }

    fn state(&self, memory: &Memory) -> ExecutorState {
        let held = |(task_id, fence): &(TaskId, u64)| HeldTask {
            task_id: *task_id,
            fence: *fence,
            phase: "result_pending".to_owned(),
            started_at: None,
            progress: None,
        };
        ExecutorState {
            version: "0.1.0".to_owned(),
            identity: memory.identity,
            boot_id: "boot".to_owned(),
            hardware: Hardware::default(),
            simulated: !self.real,
            task_types: model::task::announced(),
            manifest_version: memory.manifest_version,
            catalogue_version: Some(memory.catalogue_version),
            tasks: memory.results.iter().map(held).collect(),
            results_pending: memory.results.len() as u32,
            trouble: None,
            disk: None,
        }
    }
}
