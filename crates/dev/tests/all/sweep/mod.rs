//! The syscall sweep: every call by which an executor changes something on disk, while it starts, enrols and runs each
//! task, is once the last one before a kill -9, once an I/O error and once a full disk. Whatever the call was, a
//! healthy start afterwards ends the task exactly once in effect, with one signed result, and leaves nothing behind.
//! Named crash points only find what their author thought of.

mod agent;
#[path = "../../../../executor/tests/all/house.rs"]
mod house;
mod judge;
mod legs;
mod slices;
mod strace;
mod talk;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dev::children::{Program, spawn};
use host::pretend::Profile;
use model::dsse::Envelope;
use model::task::TaskType;
use rustix::process::{Pid, Signal, kill_process};

use crate::EXE;
use judge::{Ending, judge, same};
use legs::{Leg, Maker, copy};
use strace::{Fault, From, Point, Seen, Trace};
use talk::PATIENCE;
pub(crate) use talk::Talk;

/// How often a fault is tried that did not happen: log lines are not as regular as files.
const TRIES: usize = 3;

/// A child that does not outlive its keeper.
struct Held(Child);

impl Held {
    fn ended(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_some())
    }

    fn end(mut self) {
        self.0.wait().expect("a child of ours");
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.ended() {
            // strace ends with what it has started, and does not listen before; anything else has no children.
            let pid = self.0.id();
            let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            let mut all: Vec<i32> = children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
            if all.is_empty() {
                all.push(pid.cast_signed());
            }
            all.into_iter().filter_map(Pid::from_raw).for_each(kill);
            self.0.wait().ok();
        }
    }
}

/// What is left of a run once its process is gone.
struct Ran {
    trace: Trace,
    /// It broke off before its script was done.
    died: bool,
    /// The result that it gave away: from then on there is no other.
    told: Option<Envelope>,
}

/// One run of a leg in a directory of its own.
fn run(dir: &Path, leg: &Leg, fault: Option<(&Point, Fault)>) -> Ran {
    copy(&leg.template, dir).expect("copied");
    let mut told = None;
    let socket = dev::simnode::NodeDir::new(dir).expect("a directory").socket();
    if leg.from_start {
        let mut program = vec![EXE.to_owned()];
        program.extend(leg.program(dir));
        let (child, trace) = strace::start(dir, &From::Start(program), fault).expect("strace starts");
        let mut child = Held(child);
        let talk = Talk::connect(&socket, || child.ended());
        let died = talk.is_none_or(|mut talk| {
            let (pid, acted) = (talk.pid(), leg.act(&mut talk, &mut told));
            kill(pid);
            acted.is_err()
        });
        child.end();
        return Ran { trace, died, told };
    }
    let program = Program {
        exe: EXE.into(),
        args: leg.program(dir),
        log: dir.join("log/executor.log"),
    };
    let mut child = Held(spawn(&program).expect("it starts"));
    let mut talk = Talk::connect(&socket, || child.ended()).expect("a healthy start");
    talk.device_csr().expect("its threads are there");
    let pid = talk.pid();
    let (tracer, trace) = strace::start(dir, &From::Running(child.0.id()), fault).expect("strace starts");
    let mut tracer = Held(tracer);
    let deadline = Instant::now() + PATIENCE;
    while !trace.attached() {
        assert!(!tracer.ended() && Instant::now() < deadline, "strace does not attach");
        std::thread::park_timeout(Duration::from_millis(2));
    }
    let died = leg.act(&mut talk, &mut told).is_err();
    kill(pid);
    child.end();
    tracer.end();
    Ran { trace, died, told }
}

fn kill(pid: Pid) {
    // It may have died by itself; that is what we are here for.
    kill_process(pid, Signal::KILL).ok();
}

/// What is known of a leg once it has run undisturbed.
struct Plan {
    leg: Leg,
    reference: Ending,
    points: Vec<Point>,
}

/// Runs it undisturbed. Gives where it was when its process was gone, the points at which a fault falls on the call
/// that is meant, and those that another thread would meet first.
fn look(root: &Path, leg: &Leg) -> (PathBuf, Ending, Vec<Point>, BTreeSet<Point>) {
    let dir = root.join("reference");
    let Ran { trace, told, .. } = run(&dir, leg, None);
    let kept = root.join(format!("kept-{}", leg.name.replace([' ', ':', '.'], "-")));
    copy(&dir, &kept).expect("copied");
    let seen = trace.seen(&dir);
    let reference = judge(&dir, leg, told.as_ref(), None).unwrap_or_else(|why| panic!("{}: {why}", leg.name));
    std::fs::remove_dir_all(&dir).expect("removable");
    let (points, shadowed) = sort(&seen);
    (kept, reference, points, shadowed)
}

fn sort(seen: &[Seen]) -> (Vec<Point>, BTreeSet<Point>) {
    let (mut points, mut taken, mut shadowed) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for Seen { point, .. } in seen {
        if taken.insert(point.clone()) {
            points.push(point.clone());
        } else {
            shadowed.insert(point.clone());
        }
    }
    (points, shadowed)
}

/// A line of the log is a line of the log, whichever thread writes it. What strace starts logs where strace does.
fn is_log(point: &Point) -> bool {
    let log = |path: &PathBuf| path.starts_with("log") || path.starts_with(strace::SAID);
    point.path.as_ref().is_some_and(log)
}

/// A file without a name is swept where it is written for its own sake.
fn is_nameless(point: &Point) -> bool {
    point.path.is_none()
}

#[derive(Default)]
struct Tally {
    fired: usize,
    bad: Vec<String>,
}

/// Every point with every fault, or each `stride`th of these; several at a time.
fn sweep(root: &Path, plan: &Plan, stride: usize) -> Tally {
    let faults = plan
        .points
        .iter()
        .flat_map(|point| Fault::ALL.map(|fault| (point, fault)));
    let jobs: Vec<(&Point, Fault)> = faults.step_by(stride).collect();
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let workers = std::thread::available_parallelism().map_or(2, usize::from) * 2;
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (jobs, next, tally) = (&jobs, &next, &tally);
            scope.spawn(move || {
                let dir = root.join(format!("run-{worker}"));
                while let Some((point, fault)) = jobs.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let outcome = one(&dir, plan, point, *fault);
                    let mut tally = tally.lock().expect("unbroken");
                    match outcome {
                        Ok(()) => tally.fired += 1,
                        Err(why) => tally.bad.push(format!("{}: {point:?} {fault:?}: {why}", plan.leg.name)),
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().expect("unbroken");
    assert_eq!(tally.fired + tally.bad.len(), jobs.len(), "every fault was tried");
    tally
}

fn one(dir: &Path, plan: &Plan, point: &Point, fault: Fault) -> Result<(), String> {
    let clear = || match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
        Ok(()) | Err(_) => {}
    };
    for _ in 0..TRIES {
        clear();
        let Ran { trace, died, told } = run(dir, &plan.leg, Some((point, fault)));
        let fired = trace.fired(fault, died);
        let ending = judge(dir, &plan.leg, told.as_ref(), Some((point, fault)))?;
        same(&ending, &plan.reference)?;
        if fired {
            clear();
            return Ok(());
        }
    }
    Err("the fault never happened".to_owned())
}

/// Why strace cannot do its work here, if so.
fn hindered(root: &Path) -> Option<String> {
    let dir = root.join("try");
    std::fs::create_dir_all(&dir).expect("a directory");
    let tried = strace::start(&dir, &From::Start(vec!["true".to_owned()]), None);
    match tried {
        Err(error) => Some(format!("strace: {error}")),
        Ok((mut child, _)) => {
            let status = child.wait().expect("a child of ours");
            (!status.success()).then(|| "strace may not trace here".to_owned())
        }
    }
}

/// One run over some legs.
struct Run {
    root: PathBuf,
    /// One of so many faults is tried.
    stride: usize,
    injected: usize,
    bad: Vec<String>,
}

impl Run {
    /// None where strace cannot do its work.
    fn begin(name: &str, stride: usize) -> Option<Self> {
        let root = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("a directory");
        if let Some(why) = hindered(&root) {
            std::fs::remove_dir_all(&root).expect("removable");
            eprintln!("not run: {why}");
            return None;
        }
        let (injected, bad) = (0, Vec::new());
        Some(Self {
            root,
            stride,
            injected,
            bad,
        })
    }

    fn go(&mut self, plan: &Plan) {
        let began = Instant::now();
        let tally = sweep(&self.root, plan, self.stride);
        let tried = tally.fired + tally.bad.len();
        let took = began.elapsed().as_secs_f32();
        eprintln!(
            "{tried:>5} of {} faults, {:>3} bad, {took:>5.1} s  {}",
            plan.points.len() * Fault::ALL.len(),
            tally.bad.len(),
            plan.leg.name
        );
        tally.bad.iter().for_each(|line| eprintln!("      {line}"));
        self.injected += tried;
        self.bad.extend(tally.bad);
    }

    fn around_tasks(&mut self, maker: &Maker) {
        for leg in maker.around() {
            let (_, reference, points, shadowed) = look(&self.root, &leg);
            let shadowed: Vec<_> = shadowed.iter().filter(|point| !is_log(point)).collect();
            assert!(shadowed.is_empty(), "{}: out of reach: {shadowed:?}", leg.name);
            self.go(&Plan { leg, reference, points });
        }
    }

    fn tasks(&mut self, maker: &Maker) {
        for task_type in TaskType::ALL {
            if let Some(claim) = maker.claim(*task_type) {
                self.task(maker, claim);
            }
        }
    }

    fn task(&mut self, maker: &Maker, claim: Leg) {
        let (done, reference, mut points, shadowed) = look(&self.root, &claim);
        points.retain(|point| !is_nameless(point));
        let resume = maker.resume(&claim, &done);
        let acknowledge = [false, true].map(|compact| maker.acknowledge(&claim, &done, compact));
        let leg = claim;
        self.go(&Plan { leg, reference, points });
        let (_, reference, points, still) = look(&self.root, &resume);
        let mut points: Vec<Point> = points.into_iter().filter(|point| shadowed.contains(point)).collect();
        points.retain(|point| !is_log(point) && !still.contains(point));
        let out_of_reach: Vec<_> = shadowed
            .iter()
            .filter(|point| !points.contains(point) && !is_log(point) && !is_nameless(point))
            .collect();
        assert!(
            out_of_reach.is_empty(),
            "{}: out of reach: {out_of_reach:?}",
            resume.name
        );
        let leg = resume;
        self.go(&Plan { leg, reference, points });
        for leg in acknowledge {
            let (_, reference, points, _) = look(&self.root, &leg);
            let compacts = points.iter().any(|point| point.call == "renameat2");
            assert_eq!(compacts, leg.name.ends_with("compact"), "{}: {points:?}", leg.name);
            self.go(&Plan { leg, reference, points });
        }
    }

    fn end(self, at_least: usize) {
        let Self {
            root, injected, bad, ..
        } = self;
        eprintln!("{injected} faults, {} bad", bad.len());
        assert!(
            bad.is_empty(),
            "{} of {injected} faults went wrong:\n{}",
            bad.len(),
            bad.join("\n")
        );
        assert!(
            injected >= at_least,
            "only {injected} faults: the trace has lost sight of the executor"
        );
        std::fs::remove_dir_all(&root).expect("removable");
    }
}

#[test]
fn no_call_of_the_executor_can_lose_or_double_a_task() {
    let Some(mut run) = Run::begin("sweep", 1) else { return };
    let maker = Maker::new(&run.root.join("of"), Profile::Cpu);
    run.around_tasks(&maker);
    run.tasks(&maker);
    run.end(500);
}

fn slices(name: &str, stride: usize, at_least: usize) {
    let Some(mut run) = Run::begin(name, stride) else {
        return;
    };
    let maker = Maker::new(&run.root.join("of"), Profile::L40sx4);
    run.tasks(&maker);
    run.end(at_least);
}

/// A sample, always the same: neighbouring calls of a slice do the same to a state file.
#[test]
fn calls_of_a_slice_cannot_lose_or_double_it() {
    slices("sweep-some", 29, 30);
}

#[test]
#[ignore = "minutes long: make test-lab"]
fn no_call_of_a_slice_can_lose_or_double_it() {
    slices("sweep-all", 1, 750);
}
