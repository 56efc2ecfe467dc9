//! The executor of a real slice is killed in the middle of every phase of a provision and every step of a release, and
//! goes on: in the end there is nothing left of any of it. Its writes are slowed down, because some steps are over in a
//! fraction of one; those that only look are caught at the journal's write that begins them. Where it died is read from
//! its journal.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use executor::{Clock, Options, Stop};
use host::pretend::{Pretend, Profile};
use model::envelope::TaskPayload;
use model::outcome::{Outcome, ResultPayload};
use model::socket::FromAgent;
use model::task::{Task, vm_provision, vm_release};
use model::value::Nonce;

use super::ground::{BRIDGE, Ground, ROOT};
use super::parts::Loop;
use super::slice::{host, image, nothing_is_left, params, slot};
use super::{in_a_lab, inside, program};
use crate::place::Place;

const PROFILE: Profile = Profile::L40sx4;
const DISK_BYTES: u64 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(240);

/// What takes longer than it should, and how long.
#[derive(Clone, Copy)]
struct Pace {
    calls: &'static str,
    delay_us: u32,
    /// How often a step is looked at before the kill.
    stay: usize,
}

impl Pace {
    /// At once first, then later; and then only where a record is made durable, for what is over too soon otherwise.
    fn of_round(round: usize) -> Self {
        let every = "fdatasync,fsync,mkdir,mkdirat,rename,renameat,renameat2,linkat,unlink,unlinkat";
        match [0, 4, 16].get(round) {
            Some(stay) => Self {
                calls: every,
                delay_us: 25_000,
                stay: *stay,
            },
            None => Self {
                calls: "fdatasync",
                delay_us: 500_000,
                stay: 0,
            },
        }
    }
}

const GLANCE: Duration = Duration::from_millis(4);
const ROUNDS_MOST: usize = 24;
/// In one walk, so that most of each walk is a resumed one and some of it is not.
const KILLS_PER_WALK: usize = 4;

fn place_file() -> PathBuf {
    Path::new(ROOT).join("place")
}

fn devices_dir() -> PathBuf {
    Path::new(ROOT).join("devices")
}

/// The process that is killed. It is this test's own binary, because only a test may mix real and pretended parts.
#[test]
#[ignore = "the executor that `make test-lab` kills; alone it does nothing"]
fn an_executor_of_the_lab() {
    let Some(dir) = inside().then(|| std::fs::read_to_string(place_file()).ok()).flatten() else {
        println!("not run: only the lab starts it");
        return;
    };
    let (dir, now) = dir.split_once('\n').expect("a directory and a time");
    let (dir, ground) = (Path::new(dir), Ground::known());
    let pretend = Pretend::in_directory(PROFILE, &devices_dir()).expect("a directory");
    let mut options = Options::new(
        dir.join("state"),
        dir.join("sock"),
        dir.join("node.toml"),
        host(&ground, &pretend),
    );
    options.clock = Clock::fixed(now.parse().expect("a time"));
    options.limits.min_free_bytes = 0;
    executor::run(options, Stop::new().expect("an eventfd")).expect("it is killed");
}

const NEXT: &str = "\"next\":{";

enum Word {
    /// Forwards or back.
    Step(String),
    Ended,
}

struct Process {
    child: Child,
    journal: PathBuf,
}

impl Process {
    fn start(place: &Place, pace: Pace) -> Self {
        let Pace { calls, delay_us, .. } = pace;
        let mut command = program("strace");
        command.args(["-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e"]);
        command.arg(format!("trace={calls}"));
        command.args(["-e", &format!("inject={calls}:delay_exit={delay_us}")]);
        command.arg(std::env::current_exe().expect("this binary"));
        command.args([
            "--exact",
            "lab::kills::an_executor_of_the_lab",
            "--ignored",
            "--nocapture",
        ]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("it starts");
        let journal = place.journal();
        Self { child, journal }
    }

    /// What its journal says last; nothing before the first word, or while one is being written.
    fn last_word(&self) -> Option<Word> {
        let bytes = std::fs::read(&self.journal).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = &text[text.rfind(NEXT)? + NEXT.len()..];
        if text.starts_with("\"end\"") {
            return Some(Word::Ended);
        }
        let step = text.split("\"step\":\"").nth(1)?.split_once('"')?.0;
        Some(Word::Step(step.to_owned()))
    }

    /// The step in which it was.
    fn killed(mut self) -> Option<String> {
        self.child.kill().expect("it was there");
        self.child.wait().expect("waited for");
        match self.last_word()? {
            Word::Step(step) => Some(step),
            Word::Ended => None,
        }
    }
}

/// How one walk went: its end, and the steps in which the executor died.
struct Walked {
    result: ResultPayload,
    died_in: Vec<String>,
}

/// Offers the task and kills whoever does it, in steps that are `wanted`.
fn walk(place: &Place, payload: &TaskPayload, wanted: &BTreeSet<&str>, pace: Pace) -> Walked {
    let mut died_in: Vec<String> = Vec::new();
    loop {
        let process = Process::start(place, pace);
        let mut agent = place.connect_with(PATIENCE);
        if died_in.is_empty() {
            agent.offer_good(place, payload);
        } else {
            agent.send(&FromAgent::Results {});
        }
        let worth = |step: &str| wanted.contains(step) && !died_in.iter().any(|died| died == step);
        let resumed = !died_in.is_empty();
        if died_in.len() < KILLS_PER_WALK && doomed(&process, resumed, worth, pace.stay) {
            died_in.extend(process.killed());
            continue;
        }
        // An agent that does not listen for so long is hung up on; a real one comes back.
        let mut agent = place.connect_with(PATIENCE);
        agent.send(&FromAgent::Results {});
        let result = place.open(&agent.done(payload.task_id));
        agent.ack(payload.task_id);
        process.killed();
        return Walked { result, died_in };
    }
}

/// Watches it until it is in a step that is worth it, and a while longer. False if it got to the end, which before its
/// beginning is that of another walk.
fn doomed(process: &Process, mut begun: bool, worth: impl Fn(&str) -> bool, stay: usize) -> bool {
    let (mut seen, until) = (0, Instant::now() + PATIENCE);
    while Instant::now() < until {
        std::thread::park_timeout(GLANCE);
        match process.last_word() {
            Some(Word::Step(step)) => {
                begun = true;
                seen = if worth(&step) { seen + 1 } else { 0 };
                if seen > stay {
                    return true;
                }
            }
            Some(Word::Ended) if begun => return false,
            Some(Word::Ended) | None => {}
        }
    }
    false
}

fn release(params: &vm_provision::Params) -> Task {
    Task::VmRelease(vm_release::Params {
        allocation_id: params.allocation_id,
        vm_name: params.vm_name.clone(),
        slots: params.slots.clone(),
        graceful_timeout_seconds: 30,
        wipe: true,
        release_nonce: Nonce::from_bytes([7; 32]),
    })
}

#[test]
#[ignore = "minutes long: make test-lab"]
fn wherever_the_executor_is_killed_the_host_ends_clean() {
    in_a_lab(|ground| {
        let Some(image) = image() else {
            println!("not run: no mini guest, tools/mini-guest.sh makes it");
            return;
        };
        ground.libvirt();
        let disk = Loop::new(DISK_BYTES);
        std::fs::create_dir_all(devices_dir()).expect("a directory");
        let paper = Pretend::in_directory(PROFILE, &devices_dir()).expect("a directory");
        let mut place = Place::empty(PROFILE);
        place.host = Some(host(ground, &paper));
        let policy = format!("slice_cidr = \"10.77.0.0/24\"\novs_bridges = [\"{BRIDGE}\"]\n");
        std::fs::write(place.dir.join("node.toml"), policy).expect("written");
        let mut place = Place::started(place);
        place.stop().expect("a clean end");
        let about = format!("{}\n{}", place.dir.display(), place.house.now());
        std::fs::write(place_file(), about).expect("written");

        let slot = slot(&disk, &paper);
        let mut to_come: BTreeSet<&str> = vm_provision::PHASES.iter().map(|phase| phase.name).collect();
        let mut to_go: BTreeSet<&str> = vm_release::PHASES.iter().map(|phase| phase.name).collect();
        for round in 0..ROUNDS_MOST {
            if to_come.is_empty() && to_go.is_empty() {
                break;
            }
            let pace = Pace::of_round(round);
            let params = params(&image, slot.clone());
            let payload = place.house.payload(&Task::VmProvision(params.clone()));
            let came = walk(&place, &payload, &to_come, pace);
            assert_eq!(came.result.outcome, Outcome::Succeeded, "{:?}", came.result);
            assert!(!disk.is_blank(), "the image is on it");
            let payload = place.house.payload(&release(&params));
            let went = walk(&place, &payload, &to_go, pace);
            assert_eq!(went.result.outcome, Outcome::Succeeded, "{:?}", went.result);
            assert!(disk.is_blank(), "every byte");
            nothing_is_left(ground);
            to_come.retain(|step| !came.died_in.iter().any(|died| died == step));
            to_go.retain(|step| !went.died_in.iter().any(|died| died == step));
            println!(
                "lab: round {round}: killed in {:?}, then in {:?}",
                came.died_in, went.died_in
            );
        }
        assert!(
            to_come.is_empty() && to_go.is_empty(),
            "never died in {to_come:?} {to_go:?}"
        );
    });
}
