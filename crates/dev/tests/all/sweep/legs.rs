//! What is swept: short stretches of an executor's life, each from a directory that is copied for every fault. A task
//! is three of them: claimed and run, resumed from its claim, acknowledged; the middle one is there for the calls of
//! the task's thread whose numbers the claiming thread uses up before.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dev::simnode::NodeDir;
use executor::{Clock, Limits, Stop};
use host::pretend::{Pretend, Profile, State};
use model::dsse::Envelope;
use model::envelope::TaskPayload;
use model::id::{AllocationId, TaskId, derive_task};
use model::key::PublicKey;
use model::outcome::{Outcome, ResultPayload};
use model::signal::Code;
use model::socket::Enrolled;
use model::task::{Task, TaskType, deprovision_user, health_probe, provision_user, topology_discover};
use model::trust::Bundle;

use super::house::House;
use super::slices;
use super::talk::{Heard, PATIENCE, Talk};

/// A slice has many phases.
fn journal_bytes(profile: Profile) -> u64 {
    if profile == Profile::Cpu { 64 << 10 } else { 256 << 10 }
}

/// A signed task.
#[derive(Clone)]
pub(crate) struct Signed {
    pub(crate) task_id: TaskId,
    pub(crate) envelope: Envelope,
}

#[derive(Clone)]
pub(crate) enum Script {
    /// Start, and say how it is.
    Hello,
    /// Take an identity.
    Enrol,
    /// Take new documents.
    Trust(Box<Bundle>),
    /// Take a task and run it, or refuse it.
    Claim,
    /// Go on with a task that was claimed before the start.
    Resume,
    /// Be told that the control plane has the result.
    Acknowledge,
}

#[derive(Clone)]
pub(crate) struct Leg {
    pub(crate) name: String,
    pub(crate) template: PathBuf,
    pub(crate) profile: Profile,
    pub(crate) journal_bytes: u64,
    /// Traced from its first instruction, or from when it listens.
    pub(crate) from_start: bool,
    pub(crate) script: Script,
    /// What has to end well afterwards, and a second task of the same kind should the machine have failed the first.
    pub(crate) work: Signed,
    pub(crate) again: Signed,
    pub(crate) enrolled: Enrolled,
    pub(crate) result_public: PublicKey,
    /// The host before the work.
    pub(crate) before: State,
}

impl Leg {
    pub(crate) fn program(&self, dir: &Path) -> Vec<String> {
        let words = [
            "executor",
            "--profile",
            self.profile.as_str(),
            "--min-free-bytes",
            "0",
            "--journal-bytes",
        ];
        let mut program: Vec<String> = words.map(str::to_owned).to_vec();
        program.extend([
            self.journal_bytes.to_string(),
            "--dir".to_owned(),
            dir.display().to_string(),
        ]);
        program
    }

    /// What it has begun stays begun, and is asked for again.
    pub(crate) fn only_forward(&self) -> bool {
        let forward = ["allocation.deprovision_user", "slice.vm_release", "slice.vm_power"];
        forward.iter().any(|name| self.name.starts_with(name))
    }

    /// What the agent says; `told` is the result that it has heard, even if nothing more was to be heard after it.
    pub(crate) fn act(&self, talk: &mut Talk, told: &mut Option<Envelope>) -> Heard<()> {
        let Signed { task_id, envelope } = &self.work;
        match &self.script {
            Script::Hello => talk.state().map(drop),
            Script::Enrol => talk.enrol(self.enrolled.clone()),
            Script::Trust(bundle) => talk.trust((**bundle).clone()).map(drop),
            Script::Claim => {
                *told = Some(talk.run(*task_id, envelope, now())?);
                Ok(())
            }
            Script::Resume => {
                *told = Some(talk.result(*task_id)?);
                Ok(())
            }
            Script::Acknowledge => {
                *told = Some(talk.result(*task_id)?);
                talk.acknowledge(*task_id)?;
                // Asked after it, hence answered after it.
                talk.device_csr().map(drop)
            }
        }
    }
}

pub(crate) fn now() -> model::time::Timestamp {
    Clock::real().now()
}

/// An executor in this process, over a directory of a run.
pub(crate) struct Here {
    stop: Stop,
    thread: Option<std::thread::JoinHandle<anyhow::Result<()>>>,
    socket: PathBuf,
}

impl Here {
    pub(crate) fn serve(dir: &Path, profile: Profile, journal_bytes: u64) -> anyhow::Result<Self> {
        let node = NodeDir::new(dir)?;
        let mut options = node.executor_options(profile)?;
        options.limits = Limits {
            journal_bytes,
            min_free_bytes: 0,
        };
        let stop = Stop::new()?;
        let told = stop.clone();
        let thread = Some(std::thread::spawn(move || executor::run(options, told)));
        Ok(Self {
            stop,
            thread,
            socket: node.socket(),
        })
    }

    /// The same, and somebody to talk to. Where children are being started, one of them holds copies of our locks and
    /// sockets until it is the program that it shall be; then we come again.
    pub(crate) fn ready(dir: &Path, leg: &Leg) -> Result<(Self, Talk), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let here = Self::serve(dir, leg.profile, leg.journal_bytes).map_err(|error| format!("{error:#}"))?;
            if let Ok(mut talk) = here.talk()
                && talk.device_csr().is_ok()
            {
                return Ok((here, talk));
            }
            // Hung up on without an error: that was the predecessor's socket.
            let why = here.end().map_or_else(|error| format!("{error:#}"), |()| String::new());
            let held = why.is_empty() || why.starts_with(Code::AlreadyRunning.as_str());
            if !held || Instant::now() > deadline {
                return Err(format!("it does not start: {why}"));
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    pub(crate) fn talk(&self) -> anyhow::Result<Talk> {
        let gone = || self.thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished);
        Talk::connect(&self.socket, gone).ok_or_else(|| anyhow::anyhow!("the executor does not start"))
    }

    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        self.join()
    }

    fn join(&mut self) -> anyhow::Result<()> {
        self.stop.stop();
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        thread.join().map_err(|_| anyhow::anyhow!("the executor panicked"))?
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        if let Err(error) = self.join() {
            eprintln!("{error:#}");
        }
    }
}

pub(crate) fn host(dir: &Path, profile: Profile) -> State {
    let node = NodeDir::new(dir).expect("a directory");
    Pretend::in_directory(profile, &node.host())
        .expect("readable")
        .snapshot()
}

/// Makes the directories that legs start from, below one of its own.
pub(crate) struct Maker {
    root: PathBuf,
    pub(crate) profile: Profile,
    house: House,
    enrolled: Enrolled,
    next_bundle: Bundle,
    result_public: PublicKey,
    pub(crate) allocation: AllocationId,
}

impl Maker {
    /// The first directory: enrolled, and nothing else.
    pub(crate) fn new(root: &Path, profile: Profile) -> Self {
        let mut house = House::new();
        // Documents of one moment, so that the second manifest follows from the first; tasks of now.
        house.clock = Clock::fixed(now());
        let fresh = root.join("fresh");
        let node = NodeDir::new(&fresh).expect("a directory");
        let options = node.executor_options(profile).expect("a host");
        node.allow_slices().expect("written");
        executor::enroll(&house.token(true).to_text(), &options, &node.agent()).expect("enroll");
        let ready = root.join("enrolled");
        copy(&fresh, &ready).expect("copied");
        let here = Here::serve(&ready, profile, journal_bytes(profile)).expect("it starts");
        let mut talk = here.talk().expect("it listens");
        let (csr, result_public) = talk.device_csr().expect("keys");
        let enrolled = house.enrolled(&csr, 1);
        talk.enrol(enrolled.clone()).expect("enrolled");
        here.end().expect("a clean end");
        let (root, allocation, next_bundle) = (root.to_owned(), AllocationId::new(), house.bundle(2));
        house.clock = Clock::real();
        Self {
            root,
            profile,
            house,
            enrolled,
            next_bundle,
            result_public,
            allocation,
        }
    }

    fn sign(&self, task: &Task) -> (TaskPayload, Signed) {
        let mut payload = self.house.payload(task);
        payload.start_by = payload.issued_at.plus_s(model::envelope::MAX_START_S);
        let (task_id, envelope) = (payload.task_id, self.house.sign(&payload));
        (payload, Signed { task_id, envelope })
    }

    fn leg(&self, name: String, template: &Path, script: Script, task: &Task) -> Leg {
        let (first, work) = self.sign(task);
        // As the control plane would ask again: another task of the same operation.
        let (mut second, _) = self.sign(task);
        (second.op_id, second.task_id) = (first.op_id, derive_task(first.op_id, 1));
        let again = Signed {
            task_id: second.task_id,
            envelope: self.house.sign(&second),
        };
        Leg {
            name,
            template: template.to_owned(),
            profile: self.profile,
            journal_bytes: journal_bytes(self.profile),
            from_start: matches!(script, Script::Hello | Script::Resume),
            script,
            work,
            again,
            enrolled: self.enrolled.clone(),
            result_public: self.result_public,
            before: host(template, self.profile),
        }
    }

    fn probe() -> Task {
        Task::HealthProbe(health_probe::Params {})
    }

    /// The life of an executor around its tasks.
    pub(crate) fn around(&self) -> Vec<Leg> {
        let (fresh, enrolled) = (self.root.join("fresh"), self.root.join("enrolled"));
        let start = |name: &str, template| self.leg(name.to_owned(), template, Script::Hello, &Self::probe());
        let trust = Script::Trust(Box::new(self.next_bundle.clone()));
        let mut hello = start("say how it is", &enrolled);
        hello.from_start = false;
        let mut refuse = self.leg("refuse".to_owned(), &enrolled, Script::Claim, &Self::probe());
        for signed in [&mut refuse.work, &mut refuse.again] {
            let mut payload = self.house.probe();
            payload.node_epoch = 9;
            *signed = Signed {
                task_id: payload.task_id,
                envelope: self.house.sign(&payload),
            };
        }
        vec![
            start("first start", &fresh),
            start("start", &enrolled),
            hello,
            self.leg("take an identity".to_owned(), &fresh, Script::Enrol, &Self::probe()),
            self.leg("take documents".to_owned(), &enrolled, trust, &Self::probe()),
            refuse,
        ]
    }

    /// Everything that can be asked of such a node: a new type finds its place here or does not compile.
    pub(crate) fn claim(&self, task_type: TaskType) -> Option<Leg> {
        let of_slices = [TaskType::VmProvision, TaskType::VmRelease, TaskType::VmPower].contains(&task_type);
        if of_slices != (self.profile != Profile::Cpu) {
            return None;
        }
        let username = "ada".parse().expect("a name");
        let uid = 20_001.try_into().expect("a uid");
        let allocation_id = self.allocation;
        let provision = Task::ProvisionUser(provision_user::Params {
            allocation_id,
            username: "ada".parse().expect("a name"),
            uid,
            ssh_public_keys: vec![dev::slice::SSH_KEY.parse().expect("a key")],
            gpu_access: true,
        });
        let (task, template) = match task_type {
            TaskType::VmProvision => slices::provision_again(self),
            TaskType::VmRelease => slices::release(self),
            TaskType::VmPower => slices::power(self),
            TaskType::HealthProbe => (Self::probe(), self.root.join("enrolled")),
            TaskType::TopologyDiscover => {
                let task = Task::TopologyDiscover(topology_discover::Params {});
                (task, self.root.join("enrolled"))
            }
            TaskType::ProvisionUser => (provision, self.root.join("enrolled")),
            TaskType::DeprovisionUser => {
                let task = Task::DeprovisionUser(deprovision_user::Params {
                    allocation_id,
                    username,
                    uid,
                    remove_home: true,
                });
                (task, self.after(&[&provision]))
            }
        };
        Some(self.leg(format!("{task_type}: claim and run"), &template, Script::Claim, &task))
    }

    /// A directory in which these tasks have been done.
    pub(crate) fn after(&self, tasks: &[&Task]) -> PathBuf {
        let last = tasks.last().expect("one of them").task_type();
        let dir = self.root.join(format!("after-{}-{last}", tasks.len()));
        if dir.exists() {
            return dir;
        }
        copy(&self.root.join("enrolled"), &dir).expect("copied");
        let here = Here::serve(&dir, self.profile, journal_bytes(self.profile)).expect("it starts");
        let mut talk = here.talk().expect("it listens");
        for task in tasks {
            let (_, signed) = self.sign(task);
            let result = talk.run(signed.task_id, &signed.envelope, now()).expect("done");
            let result = ResultPayload::open(&result, &self.result_public).expect("signed");
            assert_eq!(
                result.outcome,
                Outcome::Succeeded,
                "{:?} {:?}",
                result.code,
                result.detail
            );
            talk.acknowledge(signed.task_id).expect("connected");
        }
        talk.device_csr().expect("connected");
        here.end().expect("a clean end");
        dir
    }

    /// The same task, from the moment after its claim; `done` is where it has ended.
    pub(crate) fn resume(&self, claim: &Leg, done: &Path) -> Leg {
        let template = self.root.join(format!("claimed-{}", claim.work.task_id));
        copy(&claim.template, &template).expect("copied");
        let journal = fs::read(done.join("executor/journal")).expect("a journal");
        fs::write(template.join("executor/journal"), cut_after_claim(&journal)).expect("written");
        Leg {
            name: claim.name.replace("claim and run", "resume"),
            template,
            from_start: true,
            script: Script::Resume,
            ..claim.clone()
        }
    }

    /// And from its end, with room enough in the journal or without.
    pub(crate) fn acknowledge(&self, claim: &Leg, done: &Path, compact: bool) -> Leg {
        let what = if compact {
            "acknowledge and compact"
        } else {
            "acknowledge"
        };
        let template = self.root.join(format!("{what}-{}", claim.work.task_id));
        copy(done, &template).expect("copied");
        let mut journal_bytes = claim.journal_bytes;
        if compact {
            let journal = fs::read(done.join("executor/journal")).expect("a journal");
            let used = journal.iter().rposition(|byte| *byte != 0).expect("records") as u64;
            journal_bytes = used * 3 / 2;
            for name in ["journal", "journal.spare"] {
                let file = fs::File::options()
                    .write(true)
                    .open(template.join("executor").join(name));
                file.and_then(|file| file.set_len(journal_bytes)).expect("shortened");
            }
        }
        Leg {
            name: claim.name.replace("claim and run", what),
            template,
            journal_bytes,
            from_start: false,
            script: Script::Acknowledge,
            ..claim.clone()
        }
    }
}

/// Records are `u32 length | u32 checksum | u64 number | u8 kind | body`; a claim is of kind 1.
fn cut_after_claim(journal: &[u8]) -> Vec<u8> {
    let (mut at, mut end) = (0, 0);
    while let Some(header) = journal.get(at..at + 17).filter(|header| header[..4] != [0; 4]) {
        at += 17 + u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if header[16] == 1 {
            end = at;
        }
    }
    assert!(end > 0, "nothing was claimed");
    let mut cut = journal.to_vec();
    cut[end..].fill(0);
    cut
}

/// A directory with everything in it, but for sockets and what strace wrote.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        if kind.is_dir() {
            copy(&entry.path(), &to.join(name))?;
        } else if kind.is_file() && !name.to_string_lossy().starts_with("strace") {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}
