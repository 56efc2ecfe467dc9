//! An agent's end of the executor's socket that outlives the executor: whatever is asked, the answer may be that
//! nobody is there any more.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use model::dsse::Envelope;
use model::id::TaskId;
use model::signal::Code;
use model::socket::{self, Enrolled, ExecutorState, FromAgent, FromExecutor};
use model::time::Timestamp;
use model::trust::Bundle;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Hung up on, or refused: either way there is nothing more to hear.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("hung up")]
    HungUp,
    #[error("refused: {0}")]
    Refused(Code),
}

pub(crate) type Heard<T> = Result<T, Ended>;

pub(crate) struct Talk(UnixStream);

impl Talk {
    /// None once `gone` says that nobody will ever listen.
    pub(crate) fn connect(path: &Path, mut gone: impl FnMut() -> bool) -> Option<Self> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(stream) = UnixStream::connect(path) {
                stream.set_read_timeout(Some(PATIENCE)).ok()?;
                return Some(Self(stream));
            }
            if gone() {
                return None;
            }
            assert!(Instant::now() < deadline, "nobody listens on {}", path.display());
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// Who listens at the other end.
    pub(crate) fn pid(&self) -> rustix::process::Pid {
        rustix::net::sockopt::socket_peercred(&self.0)
            .expect("a Unix socket")
            .pid
    }

    fn say(&mut self, message: &FromAgent) -> Heard<()> {
        let frame = socket::encode(message).expect("a message");
        self.0.write_all(&frame).map_err(|_| Ended::HungUp)
    }

    /// The first message that fits.
    fn hear<T>(&mut self, mut fits: impl FnMut(FromExecutor) -> Option<Heard<T>>) -> Heard<T> {
        loop {
            let mut header = [0; 4];
            self.0.read_exact(&mut header).map_err(|_| Ended::HungUp)?;
            let mut body = vec![0; socket::body_length(header).expect("a small frame")];
            self.0.read_exact(&mut body).map_err(|_| Ended::HungUp)?;
            if let Some(found) = fits(socket::decode(&body).expect("a message")) {
                return found;
            }
        }
    }

    pub(crate) fn state(&mut self) -> Heard<ExecutorState> {
        self.say(&FromAgent::Hello { request_id: 1 })?;
        self.hear(|said| match said {
            FromExecutor::State { request_id: 1, state } => Some(Ok(*state)),
            _ => None,
        })
    }

    pub(crate) fn device_csr(&mut self) -> Heard<(String, model::key::PublicKey)> {
        self.say(&FromAgent::EnrolKeys { request_id: 2 })?;
        self.hear(|said| match said {
            FromExecutor::Keys { request_id: 2, keys } => Some(Ok((keys.device_csr, keys.result_public))),
            _ => None,
        })
    }

    pub(crate) fn enrol(&mut self, enrolled: Enrolled) -> Heard<()> {
        let enrolled = Box::new(enrolled);
        self.say(&FromAgent::Enrolled {
            request_id: 3,
            enrolled,
        })?;
        self.hear(|said| match said {
            FromExecutor::Ok { request_id: 3 } => Some(Ok(())),
            FromExecutor::Failed {
                request_id: 3, code, ..
            } => Some(Err(Ended::Refused(code))),
            _ => None,
        })
    }

    pub(crate) fn trust(&mut self, bundle: Bundle) -> Heard<u64> {
        let bundle = Box::new(bundle);
        self.say(&FromAgent::Trust { request_id: 4, bundle })?;
        self.hear(|said| match said {
            FromExecutor::Trusted {
                request_id: 4,
                manifest_version,
            } => Some(Ok(manifest_version)),
            FromExecutor::Failed {
                request_id: 4, code, ..
            } => Some(Err(Ended::Refused(code))),
            _ => None,
        })
    }

    /// Offers it and waits for its signed end.
    pub(crate) fn run(&mut self, task_id: TaskId, envelope: &Envelope, server_time: Timestamp) -> Heard<Envelope> {
        let (fence, envelope) = (7, envelope.clone());
        self.say(&FromAgent::Offer {
            task_id,
            fence,
            envelope,
            server_time,
        })?;
        self.done(task_id)
    }

    /// What is pending is told without being offered again.
    pub(crate) fn result(&mut self, task_id: TaskId) -> Heard<Envelope> {
        self.say(&FromAgent::Results {})?;
        self.done(task_id)
    }

    fn done(&mut self, task_id: TaskId) -> Heard<Envelope> {
        self.hear(|said| match said {
            FromExecutor::Done {
                task_id: id, envelope, ..
            } if id == task_id => Some(Ok(envelope)),
            FromExecutor::NotTaken { task_id: id, code } if id == task_id => Some(Err(Ended::Refused(code))),
            _ => None,
        })
    }

    /// Acknowledges it; the state that comes after says whether that was written down.
    pub(crate) fn acknowledge(&mut self, task_id: TaskId) -> Heard<()> {
        self.say(&FromAgent::Acked { task_id, status: 200 })
    }
}
