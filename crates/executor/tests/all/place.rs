//! One executor in a directory of its own, and an agent that talks to it over the real socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use executor::{Errands, Limits, Options, Stop};
use host::pretend::{Pretend, Profile};
use model::dsse::Envelope;
use model::envelope::TaskPayload;
use model::id::TaskId;
use model::key::PublicKey;
use model::outcome::ResultPayload;
use model::signal::Code;
use model::socket::{self, EnrolmentKeys, ExecutorState, FromAgent, FromExecutor};

use model::trust::Bundle;

use crate::house::House;

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    pub(crate) house: House,
    pub(crate) pretend: Pretend,
    pub(crate) result_public: Option<PublicKey>,
    pub(crate) limits: Limits,
    /// In the place of the pretend host's own, from the next start on.
    pub(crate) users: Option<Arc<dyn host::Users>>,
    /// In the place of the pretend host.
    pub(crate) host: Option<host::Host>,
    pub(crate) errands: Arc<Errands>,
    running: Option<(Stop, JoinHandle<anyhow::Result<()>>)>,
}

static PLACES: AtomicU32 = AtomicU32::new(0);

impl Place {
    /// A directory, a pretend host, and nothing running.
    pub(crate) fn empty(profile: Profile) -> Self {
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("executor-{}-{number}", std::process::id()));
        std::fs::create_dir_all(dir.join("agent")).expect("a directory");
        let limits = Limits {
            journal_bytes: 128 << 10,
            min_free_bytes: 0,
        };
        let pretend = Pretend::in_memory(profile);
        Self {
            dir,
            house: House::new(),
            pretend,
            result_public: None,
            limits,
            users: None,
            host: None,
            errands: Arc::default(),
            running: None,
        }
    }

    /// Enrolled and serving.
    pub(crate) fn start(profile: Profile) -> Self {
        Self::started(Self::empty(profile))
    }

    pub(crate) fn started(mut place: Self) -> Self {
        place.enroll();
        place.serve();
        let mut agent = place.connect();
        let keys = agent.keys();
        place.result_public = Some(keys.result_public);
        let enrolled = Box::new(place.house.enrolled(&keys.device_csr, 1));
        agent.send(&FromAgent::Enrolled {
            request_id: 1,
            enrolled,
        });
        agent.wait("ok", |said| {
            matches!(said, FromExecutor::Ok { request_id: 1 }).then_some(())
        });
        place
    }

    pub(crate) fn options(&self) -> Options {
        let path = |name: &str| self.dir.join(name);
        let mut host = self.host.clone().unwrap_or_else(|| self.pretend.host());
        host.users = self.users.clone().unwrap_or(host.users);
        let mut options = Options::new(path("state"), path("sock"), path("node.toml"), host);
        options.clock = self.house.clock.clone();
        options.limits = self.limits;
        options.errands = self.errands.clone();
        options
    }

    pub(crate) fn enroll(&self) {
        let token = self.house.token(true).to_text();
        executor::enroll(&token, &self.options(), &self.dir.join("agent")).expect("enroll");
    }

    pub(crate) fn serve(&mut self) {
        let (options, stop) = (self.options(), Stop::new().expect("an eventfd"));
        let told = stop.clone();
        let thread = std::thread::spawn(move || executor::run(options, told));
        self.running = Some((stop, thread));
    }

    /// Ends it between two journal writes, wherever that is.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        let Some((stop, thread)) = self.running.take() else {
            return Ok(());
        };
        stop.stop();
        thread.join().expect("no panic")
    }

    pub(crate) fn restart(&mut self) {
        self.stop().expect("a clean end");
        self.serve();
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.dir.join("state/journal")
    }

    pub(crate) fn connect(&self) -> Agent {
        self.connect_with(PATIENCE)
    }

    /// An agent that waits so long for each word.
    pub(crate) fn connect_with(&self, patience: Duration) -> Agent {
        let path = self.dir.join("sock");
        let stream = eventually("the socket accepts", || UnixStream::connect(&path).ok());
        stream.set_read_timeout(Some(patience)).expect("a timeout");
        Agent { stream, fence: 100 }
    }

    /// The result, opened with this executor's own key.
    pub(crate) fn open(&self, envelope: &Envelope) -> ResultPayload {
        let key = self.result_public.expect("enrolled");
        ResultPayload::open(envelope, &key).expect("signed by this executor")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("{error:#}");
        }
        if !std::thread::panicking() {
            std::fs::remove_dir_all(&self.dir).expect("removable");
        }
    }
}

/// Looks until there is something to see.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

pub(crate) struct Agent {
    stream: UnixStream,
    fence: u64,
}

impl Agent {
    pub(crate) fn send(&mut self, message: &FromAgent) {
        self.send_raw(&socket::encode(message).expect("a message"));
    }

    pub(crate) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("connected");
    }

    /// Asks and does not listen; the executor may hang up half-way.
    pub(crate) fn flood_with_hellos(&mut self, count: u64) {
        for request_id in 0..count {
            let frame = socket::encode(&FromAgent::Hello { request_id }).expect("a message");
            if self.stream.write_all(&frame).is_err() {
                return;
            }
        }
    }

    /// The next message; none if the executor hung up.
    pub(crate) fn next(&mut self) -> Option<FromExecutor> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header).ok()?;
        let mut body = vec![0; socket::body_length(header).expect("a small frame")];
        self.stream.read_exact(&mut body).ok()?;
        Some(socket::decode(&body).expect("a message"))
    }

    /// The first message that fits; others are passed over.
    pub(crate) fn wait<T>(&mut self, what: &str, mut fits: impl FnMut(FromExecutor) -> Option<T>) -> T {
        loop {
            let said = self.next().unwrap_or_else(|| panic!("hung up before: {what}"));
            if let Some(found) = fits(said) {
                return found;
            }
        }
    }

    pub(crate) fn hung_up(&mut self) {
        while self.next().is_some() {}
    }

    pub(crate) fn state(&mut self) -> ExecutorState {
        self.send(&FromAgent::Hello { request_id: 7 });
        self.wait("state", |said| match said {
            FromExecutor::State { request_id: 7, state } => Some(*state),
            _ => None,
        })
    }

    pub(crate) fn keys(&mut self) -> EnrolmentKeys {
        self.send(&FromAgent::EnrolKeys { request_id: 8 });
        self.wait("keys", |said| match said {
            FromExecutor::Keys { request_id: 8, keys } => Some(*keys),
            _ => None,
        })
    }

    /// The manifest version that it trusts afterwards.
    pub(crate) fn trust(&mut self, bundle: Bundle) -> Result<u64, Code> {
        let bundle = Box::new(bundle);
        self.send(&FromAgent::Trust { request_id: 6, bundle });
        self.wait("trust", |said| match said {
            FromExecutor::Trusted {
                request_id: 6,
                manifest_version,
            } => Some(Ok(manifest_version)),
            FromExecutor::Failed {
                request_id: 6, code, ..
            } => Some(Err(code)),
            _ => None,
        })
    }

    pub(crate) fn offer(&mut self, place: &Place, task_id: TaskId, envelope: Envelope) {
        self.fence += 1;
        let (fence, server_time) = (self.fence, place.house.now());
        self.send(&FromAgent::Offer {
            task_id,
            fence,
            envelope,
            server_time,
        });
    }

    pub(crate) fn offer_good(&mut self, place: &Place, payload: &TaskPayload) {
        self.offer(place, payload.task_id, place.house.sign(payload));
    }

    pub(crate) fn done(&mut self, task_id: TaskId) -> Envelope {
        self.wait("done", |said| match said {
            FromExecutor::Done {
                task_id: id, envelope, ..
            } if id == task_id => Some(envelope),
            FromExecutor::NotTaken { task_id: id, code } if id == task_id => panic!("not taken: {code}"),
            _ => None,
        })
    }

    /// The end of a task that is offered until there is one: an unknown key is waited for once.
    pub(crate) fn judged(&mut self, place: &Place, task_id: TaskId, envelope: &Envelope) -> Envelope {
        loop {
            self.offer(place, task_id, envelope.clone());
            let end = self.wait("a verdict", |said| match said {
                FromExecutor::Done {
                    task_id: id, envelope, ..
                } if id == task_id => Some(Some(envelope)),
                FromExecutor::NotTaken { task_id: id, code } if id == task_id => {
                    assert_eq!(code, Code::KeyUnknown);
                    Some(None)
                }
                _ => None,
            });
            if let Some(end) = end {
                return end;
            }
            assert_eq!(self.trust(place.house.bundle(1)), Ok(1), "it is not in the documents");
        }
    }

    pub(crate) fn not_taken(&mut self, task_id: TaskId) -> Code {
        self.wait("not taken", |said| match said {
            FromExecutor::NotTaken { task_id: id, code } if id == task_id => Some(code),
            FromExecutor::Accepted { task_id: id, .. } if id == task_id => panic!("taken"),
            _ => None,
        })
    }

    /// Offers it and waits for its end.
    pub(crate) fn run(&mut self, place: &Place, payload: &TaskPayload) -> ResultPayload {
        self.offer_good(place, payload);
        let envelope = self.done(payload.task_id);
        place.open(&envelope)
    }

    /// Acknowledges and waits until that is durable.
    pub(crate) fn ack(&mut self, task_id: TaskId) {
        self.send(&FromAgent::Acked { task_id, status: 200 });
        assert!(self.state().tasks.iter().all(|held| held.task_id != task_id));
    }
}

pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
