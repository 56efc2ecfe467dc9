//! The process may die between any two of its acts. Here it is stopped, and its journal and host are put back to how
//! they were at each of those moments.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use host::pretend::{Pretend, Profile, State};
use host::{Resident, Result, Tenant, Users};
use model::id::AllocationId;
use model::outcome::Outcome;
use model::signal::Code;
use model::socket::FromAgent;
use model::task::{deprovision_user::Absent, provision_user::Verified};
use model::value::SshKey;

use crate::place::{Place, eventually, read};
use crate::users::{deprovision, provision};

/// Journal and host at one moment.
type Moment = (Vec<u8>, State);

/// Users that remember the journal and the machine before and after each call.
struct Watched {
    inner: Pretend,
    journal: PathBuf,
    moments: Arc<Mutex<Vec<Moment>>>,
}

impl Watched {
    fn around<T>(&self, call: impl FnOnce(&Pretend) -> Result<T>) -> Result<T> {
        self.look();
        let answer = call(&self.inner);
        self.look();
        answer
    }

    fn look(&self) {
        let moment = (read(&self.journal), self.inner.snapshot());
        self.moments.lock().expect("unbroken").push(moment);
    }
}

macro_rules! watched {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl Users for Watched {
            fn residents(&self) -> Result<Vec<Resident>> {
                self.inner.residents()
            }
            $(fn $name(&self, tenant: &Tenant $(, $arg: $type)*) -> Result<$answer> {
                self.around(|inner| inner.$name(tenant $(, $arg)*))
            })*
        }
    };
}
watched! {
    refuse_foreign() -> ();
    ensure_account(gpu_access: bool) -> ();
    ensure_no_account() -> ();
    ensure_home() -> String;
    ensure_no_home() -> ();
    ensure_keys(keys: &[SshKey]) -> ();
    ensure_no_keys() -> ();
    verified(gpu_access: bool, keys: &[SshKey]) -> Verified;
    ensure_locked() -> ();
    ensure_no_schedules() -> ();
    ensure_no_processes() -> u32;
    ensure_no_files() -> ();
    ensure_no_ipc() -> ();
    absent() -> Absent;
    leftovers() -> Vec<String>;
}

impl Place {
    /// From the next start on, every call is a moment to come back to.
    fn watch(&mut self) -> Arc<Mutex<Vec<Moment>>> {
        let moments = Arc::new(Mutex::new(Vec::new()));
        let (inner, journal) = (self.pretend.clone(), self.journal());
        self.users = Some(Arc::new(Watched {
            inner,
            journal,
            moments: Arc::clone(&moments),
        }));
        moments
    }

    fn back_to(&mut self, (journal, state): &Moment) {
        self.stop().expect("a clean end");
        std::fs::write(self.journal(), journal).expect("written");
        self.pretend.meddle(|now| now.clone_from(state));
        self.serve();
    }
}

/// Runs the task, then dies at every moment of it and finishes each time.
fn dies_everywhere(mut place: Place, payload: &model::envelope::TaskPayload, moments_at_least: usize) {
    place.stop().expect("a clean end");
    let moments = place.watch();
    place.serve();
    let mut agent = place.connect();
    let first = agent.run(&place, payload);
    assert_eq!(first.outcome, Outcome::Succeeded, "{:?}", first.detail);
    let finished = place.pretend.snapshot();
    place.stop().expect("a clean end");
    place.users = None;
    let moments = std::mem::take(&mut *moments.lock().expect("unbroken"));
    assert!(moments.len() >= moments_at_least, "{}", moments.len());
    for (n, moment) in moments.iter().enumerate() {
        place.back_to(moment);
        let mut agent = place.connect();
        agent.send(&FromAgent::Results {});
        let result = place.open(&agent.done(payload.task_id));
        assert_eq!(result.outcome, Outcome::Succeeded, "moment {n}: {:?}", result.detail);
        assert_eq!(
            result.output.map(|o| o.to_string()),
            first.output.as_ref().map(|o| o.to_string()),
            "moment {n}"
        );
        assert_eq!(place.pretend.snapshot(), finished, "moment {n}");
    }
}

#[test]
fn an_account_is_made_once_wherever_the_executor_dies() {
    let place = Place::start(Profile::Cpu);
    let payload = provision(&place, AllocationId::new());
    dies_everywhere(place, &payload, 8);
}

#[test]
fn an_account_is_gone_wherever_the_executor_dies() {
    let place = Place::start(Profile::Cpu);
    let allocation = AllocationId::new();
    place.connect().run(&place, &provision(&place, allocation));
    let payload = deprovision(&place, allocation);
    dies_everywhere(place, &payload, 16);
}

#[test]
fn a_result_survives_until_it_is_acknowledged_and_is_always_the_same() {
    let mut place = Place::start(Profile::Cpu);
    let payload = place.house.probe();
    let mut agent = place.connect();
    agent.offer_good(&place, &payload);
    let first = agent.done(payload.task_id);
    for _ in 0..3 {
        place.restart();
        let mut agent = place.connect();
        agent.send(&FromAgent::Results {});
        assert_eq!(agent.done(payload.task_id), first);
    }
    let mut agent = place.connect();
    agent.ack(payload.task_id);
    place.restart();
    let state = place.connect().state();
    assert_eq!((state.tasks.len(), state.results_pending), (0, 0));
}

#[test]
fn what_was_claimed_but_came_too_late_expires() {
    let mut place = Place::start(Profile::Cpu);
    let payload = provision(&place, AllocationId::new());
    let claimed_only = claimed_only(&mut place, &payload);
    let before = place.pretend.snapshot();
    place.house.clock.advance(601_000);
    place.back_to(&(claimed_only, before.clone()));
    let mut agent = place.connect();
    agent.send(&FromAgent::Results {});
    let result = place.open(&agent.done(payload.task_id));
    assert_eq!(
        (result.outcome, result.code),
        (Outcome::Expired, Some(Code::TaskExpired))
    );
    assert_eq!((result.started_at, place.pretend.snapshot()), (None, before));
}

/// The journal as it was right after the claim: two records, the enrolment's floor and the claim.
fn claimed_only(place: &mut Place, payload: &model::envelope::TaskPayload) -> Vec<u8> {
    let before = place.pretend.snapshot();
    place.connect().run(place, payload);
    place.stop().expect("a clean end");
    place.pretend.meddle(|now| *now = before);
    let mut bytes = read(&place.journal());
    let mut at = 0;
    for _ in 0..2 {
        at += 17 + u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
    }
    bytes[at..].fill(0);
    bytes
}

#[test]
fn what_ran_too_long_before_a_restart_turns_back() {
    let mut place = Place::start(Profile::Cpu);
    place.stop().expect("a clean end");
    let moments = place.watch();
    place.serve();
    let clean = place.pretend.snapshot();
    let payload = provision(&place, AllocationId::new());
    place.connect().run(&place, &payload);
    place.stop().expect("a clean end");
    place.users = None;
    // Two calls of the look, then those of account and home, each before and after.
    let half_way = moments.lock().expect("unbroken")[7].clone();
    assert_ne!(half_way.1, clean, "something is there to be taken back");
    place.house.clock.advance(i64::from(payload.max_runtime_s) * 1000);
    place.back_to(&half_way);
    let mut agent = place.connect();
    agent.send(&FromAgent::Results {});
    let result = place.open(&agent.done(payload.task_id));
    assert_eq!(
        (result.outcome, result.code),
        (Outcome::Failed, Some(Code::RuntimeExceeded))
    );
    assert_eq!(result.undone, ["home", "account", "look"]);
    assert_eq!(place.pretend.snapshot(), clean);
}

/// The same journal as a build with other steps would have written it.
fn of_another_build(journal: &[u8]) -> Vec<u8> {
    let (mut bytes, mut at, mut changed) = (journal.to_vec(), 0, 0);
    loop {
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
        if length == 0 {
            break;
        }
        let record = &mut bytes[at..at + 17 + length];
        let body = String::from_utf8(record[17..].to_vec()).expect("JSON");
        let other = body.replace("\"table\":[\"look\"", "\"table\":[\"lock\"");
        changed += usize::from(other != body);
        record[17..].copy_from_slice(other.as_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&record[..4]), &record[8..]);
        record[4..8].copy_from_slice(&crc.to_le_bytes());
        at += 17 + length;
    }
    assert_eq!(changed, 1, "the table is named once");
    bytes
}

#[test]
fn what_another_build_began_is_left_to_that_build() {
    let mut place = Place::start(Profile::Cpu);
    place.stop().expect("a clean end");
    let moments = place.watch();
    place.serve();
    let payload = provision(&place, AllocationId::new());
    place.connect().run(&place, &payload);
    place.stop().expect("a clean end");
    place.users = None;
    let (journal, host) = moments.lock().expect("unbroken")[5].clone();
    let theirs = of_another_build(&journal);
    place.back_to(&(theirs.clone(), host.clone()));
    let mut agent = place.connect();
    let calls = place.pretend.calls();
    let state = eventually("it says so", || {
        Some(agent.state()).filter(|state| state.trouble.is_some())
    });
    assert_eq!((state.trouble, state.results_pending), (Some(Code::Stuck), 0));
    assert_eq!((state.tasks.len(), state.tasks[0].phase.as_str()), (1, "stuck"));
    let probe = place.house.probe();
    agent.offer_good(&place, &probe);
    assert_eq!(agent.not_taken(probe.task_id), Code::Stuck);
    assert_eq!((place.pretend.snapshot(), place.pretend.calls()), (host.clone(), calls));
    place.stop().expect("a clean end");
    assert_eq!(read(&place.journal()), theirs, "nothing was written");
    // The build that began it comes back.
    place.back_to(&(journal, host));
    let mut agent = place.connect();
    agent.send(&FromAgent::Results {});
    assert_eq!(place.open(&agent.done(payload.task_id)).outcome, Outcome::Succeeded);
}

#[test]
fn a_damaged_journal_stops_everything_but_the_answer_why() {
    let mut place = Place::start(Profile::Cpu);
    let payload = place.house.probe();
    place.connect().run(&place, &payload);
    place.stop().expect("a clean end");
    let mut bytes = read(&place.journal());
    bytes[20] ^= 1;
    std::fs::write(place.journal(), &bytes).expect("written");
    place.serve();
    let mut agent = place.connect();
    assert_eq!(agent.state().trouble, Some(Code::JournalCorrupt));
    let calls = place.pretend.calls();
    let next = place.house.probe();
    agent.offer_good(&place, &next);
    assert_eq!(agent.not_taken(next.task_id), Code::JournalCorrupt);
    assert_eq!(place.pretend.calls(), calls);
    place.stop().expect("a clean end");
    assert_eq!(read(&place.journal()), bytes, "left for a person to look at");
}

/// abuse 1: every envelope again and again, across a restart, after compaction, with the clock turned back.
#[test]
fn abuse_01_replay() {
    let mut place = Place::start(Profile::Cpu);
    let allocation = AllocationId::new();
    let payloads = [provision(&place, allocation), place.house.probe()];
    let mut agent = place.connect();
    let results: Vec<_> = payloads
        .iter()
        .map(|payload| {
            agent.offer_good(&place, payload);
            agent.done(payload.task_id)
        })
        .collect();
    payloads.iter().for_each(|payload| agent.ack(payload.task_id));
    let (world, calls) = (place.pretend.snapshot(), place.pretend.calls());
    for round in 0..100 {
        if round % 25 == 24 {
            place.restart();
            agent = place.connect();
        }
        for (payload, result) in payloads.iter().zip(&results) {
            agent.offer_good(&place, payload);
            assert_eq!(agent.done(payload.task_id), *result, "the stored result, to the byte");
        }
    }
    // Their time is over and the journal has been compacted: they are forgotten, and refused all the same.
    place.house.clock.advance(1_100_000);
    fill_until_compacted(&mut place);
    for back_ms in [0, -1_000_000, -10_000_000] {
        place.house.clock.advance(back_ms);
        let mut agent = place.connect();
        for payload in &payloads {
            let result = agent.run(&place, payload);
            assert_eq!(
                (result.outcome, result.code),
                (Outcome::Refused, Some(Code::StartByPassed)),
                "{back_ms}"
            );
        }
    }
    let probes = place.pretend.calls() - calls;
    assert_eq!(
        probes % 7,
        0,
        "only the probes that filled the journal have looked at the host"
    );
    assert_eq!(place.pretend.snapshot(), world);
}

/// Probes until the file has been replaced.
fn fill_until_compacted(place: &mut Place) {
    use std::os::unix::fs::MetadataExt;
    let inode = |place: &Place| std::fs::metadata(place.journal()).expect("a journal").ino();
    let before = inode(place);
    let mut agent = place.connect();
    while inode(place) == before {
        let payload = place.house.probe();
        agent.run(place, &payload);
        agent.ack(payload.task_id);
    }
}
