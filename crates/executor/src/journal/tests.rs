//! The journal under every cut, every flipped byte, and again and again.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use model::digest::Sha256;
use model::dsse::Envelope;
use model::envelope::TaskPayload;
use model::id::{InstallationId, NodeId, OpId, TaskId};
use model::key::SigningKey;
use model::task::{Task as Asked, health_probe};
use proptest::prelude::{ProptestConfig, prop, proptest};

use super::entry::Acked;
use super::*;

static PLACES: AtomicU32 = AtomicU32::new(0);

pub(super) struct Place(pub(super) PathBuf);

impl Place {
    pub(super) fn new() -> Self {
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("journal-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        Self(dir)
    }

    pub(super) fn open(&self) -> Result<Journal, JournalError> {
        Journal::open(&self.0, SIZE)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        fs::read(self.0.join("journal")).expect("a journal")
    }

    pub(super) fn put(&self, bytes: &[u8]) {
        fs::write(self.0.join("journal"), bytes).expect("written");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("removable");
    }
}

const SIZE: u64 = 64 * 1024;

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000).plus_s(seconds)
}

pub(super) fn claim(issued_s: i64, seq: u64, subject: Option<&str>) -> Claimed {
    let payload = TaskPayload {
        v: 1,
        aud: InstallationId::new(),
        task_id: TaskId::new(),
        op_id: OpId::new(),
        intent_sha256: None,
        node_id: NodeId::new(),
        node_epoch: 1,
        seq,
        task_type: "diag.health_probe".to_owned(),
        type_version: 1,
        issued_at: at(issued_s),
        start_by: at(issued_s + 600),
        max_runtime_s: 60,
        actor_ref: "test".to_owned(),
        correlation_id: TaskId::new().uuid(),
        params: Asked::HealthProbe(health_probe::Params {}).params(),
    };
    Claimed {
        task_id: payload.task_id,
        fence: 7,
        claimed_at: at(issued_s),
        subjects: subject.map(str::to_owned).into_iter().collect(),
        clock_skew_ms: 0,
        envelope: payload.sign(&SigningKey::generate()),
    }
}

/// Stands for the digest of the bytes that were offered.
fn bytes_of(task_id: TaskId) -> Sha256 {
    Sha256::of(task_id.to_string().as_bytes())
}

pub(super) fn acked(task_id: TaskId, start_by: Timestamp) -> Entry {
    Entry::Acked(Acked {
        task_id,
        payload_sha256: bytes_of(task_id),
        refused: false,
        status: 200,
        start_by,
    })
}

pub(super) fn done(task_id: TaskId, start_by: Timestamp, bytes: usize) -> Entry {
    let result = Envelope {
        payload_type: "x".to_owned(),
        payload: "A".repeat(bytes),
        signatures: Vec::new(),
    };
    Entry::Done(Done {
        task_id,
        fence: 7,
        payload_sha256: bytes_of(task_id),
        refused: false,
        start_by,
        started_at: None,
        result,
    })
}

/// Three tasks: one only claimed, one started, one done and acknowledged.
fn written(place: &Place) -> Vec<TaskId> {
    let mut journal = place.open().expect("new");
    let claims = [claim(0, 1, None), claim(1, 2, Some("user/ada")), claim(2, 3, None)];
    let ids: Vec<TaskId> = claims.iter().map(|claimed| claimed.task_id).collect();
    for claimed in claims {
        journal.append(Entry::Claimed(claimed), at(3)).expect("room");
    }
    let started = Started {
        task_id: ids[1],
        at: at(3),
    };
    journal.append(Entry::Started(started), at(3)).expect("room");
    journal.append(done(ids[2], at(602), 10), at(3)).expect("room");
    journal.append(acked(ids[2], at(602)), at(3)).expect("room");
    ids
}

/// The book as a digest, to compare.
pub(super) fn told(journal: &Journal) -> Sha256 {
    digest(&journal.book)
}

fn digest(book: &Book) -> Sha256 {
    Sha256::of(format!("{book:?}").as_bytes())
}

/// What `open` makes of these bytes, without a file: the book, how many records, and whether a tail has to be cut.
/// Every record decoded whole, one after the other.
pub(super) fn replay(bytes: &[u8]) -> Option<(Sha256, usize, bool)> {
    let scan = frame::scan(bytes);
    let mut book = Book::new();
    for frame in &scan.frames {
        book.apply(Entry::parse(frame.kind, frame.body).ok()?).ok()?;
    }
    let torn = scan.tail == frame::Tail::Torn;
    (scan.tail != frame::Tail::Corrupt).then(|| (digest(&book), scan.frames.len(), torn))
}

/// Byte offsets at which records end.
pub(super) fn ends(bytes: &[u8]) -> Vec<usize> {
    let frames = frame::scan(bytes).frames;
    let mut end = 0;
    frames
        .iter()
        .map(|frame| {
            end += frame.size();
            end
        })
        .collect()
}

#[test]
fn what_was_written_is_read_again() {
    let place = Place::new();
    let ids = written(&place);
    let journal = place.open().expect("readable");
    let open: BTreeSet<TaskId> = journal.book().open().map(|(id, _)| id).collect();
    assert_eq!(open, BTreeSet::from([ids[0], ids[1]]));
    assert_eq!(journal.book().pending().count(), 0);
    assert_eq!(journal.book().floor().time, at(2));
    assert_eq!(journal.book().floor().seqs["user/ada"].seq, 2);
    assert_eq!(
        fs::metadata(place.0.join("journal.spare")).expect("a spare").len(),
        SIZE
    );
}

/// A power cut can leave any prefix; the rest of the file is zeros, because it was allocated so.
#[test]
fn any_prefix_is_the_journal_of_its_whole_records() {
    let place = Place::new();
    written(&place);
    let whole = place.bytes();
    let ends = ends(&whole);
    let used = *ends.last().expect("records");
    let mut books = BTreeSet::new();
    for cut in 0..=used {
        let mut bytes = whole[..used + 64].to_vec();
        bytes[cut..].fill(0);
        let (book, count, _) = replay(&bytes).unwrap_or_else(|| panic!("cut at {cut}"));
        assert_eq!(count, ends.iter().filter(|end| **end <= cut).count(), "cut at {cut}");
        books.insert(book);
    }
    assert_eq!(books.len(), ends.len() + 1, "each record tells something");
}

/// The same with the file itself: the tail is cut, the next record fits, and all of it survives another look.
#[test]
fn a_cut_journal_goes_on() {
    let place = Place::new();
    written(&place);
    let whole = place.bytes();
    let ends = ends(&whole);
    let cuts = ends.iter().flat_map(|end| [end - 1, *end, end + 1, end + 20]);
    for cut in cuts.filter(|cut| *cut < ends[ends.len() - 1]) {
        let mut bytes = whole.clone();
        bytes[cut..].fill(0);
        place.put(&bytes);
        let mut journal = place.open().unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let records = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(journal.next_seq(), records as u64 + 1, "cut at {cut}");
        journal.append(Entry::Claimed(claim(9, 9, None)), at(9)).expect("room");
        assert_eq!(told(&place.open().expect("readable")), told(&journal), "cut at {cut}");
    }
}

/// Durable records never vanish in silence: a flip is noticed, unless it is in the last one, where it cannot be told
/// from a torn write.
#[test]
fn any_flipped_bit_is_noticed_or_cuts_only_the_last_record() {
    let place = Place::new();
    written(&place);
    let whole = place.bytes();
    let ends = ends(&whole);
    let (used, last) = (ends[ends.len() - 1], ends[ends.len() - 2]);
    let (before, count, _) = replay(&whole).expect("good");
    for byte in 0..used + 64 {
        let mut bytes = whole[..used + 64].to_vec();
        for bit in 0..8 {
            bytes[byte] = whole[byte] ^ (1 << bit);
            match replay(&bytes) {
                None => assert!(byte < last, "byte {byte} is only a torn tail"),
                Some((_, records, torn)) if byte < used => {
                    assert!(byte >= last, "byte {byte} went unnoticed");
                    assert_eq!((records, torn), (count - 1, true));
                }
                Some((book, _, torn)) => assert_eq!((book, torn), (before, true), "byte {byte} after the end"),
            }
        }
    }
}

#[test]
fn a_damaged_journal_is_left_as_it_is() {
    let place = Place::new();
    written(&place);
    let mut bytes = place.bytes();
    bytes[30] ^= 1;
    place.put(&bytes);
    assert!(matches!(place.open(), Err(JournalError::Corrupt(_))));
    assert_eq!(place.bytes(), bytes);
}

#[test]
fn a_lost_record_is_a_damaged_journal() {
    let place = Place::new();
    written(&place);
    let (mut bytes, ends) = (place.bytes(), ends(&place.bytes()));
    let gone = bytes.drain(ends[0]..ends[1]).len();
    bytes.extend(vec![0; gone]);
    place.put(&bytes);
    assert!(matches!(place.open(), Err(JournalError::Corrupt(_))));
}

#[test]
fn compaction_keeps_what_is_needed_and_raises_the_floor_for_what_is_not() {
    let place = Place::new();
    let ids = written(&place);
    let mut journal = place.open().expect("readable");
    journal.compact(at(602 + 120)).expect("room");
    assert!(journal.book().task(ids[2]).is_some(), "may still be offered");
    journal.compact(at(602 + 121)).expect("room");
    assert!(journal.book().task(ids[2]).is_none());
    assert_eq!(
        journal.book().floor().time,
        at(602).plus_ms(1),
        "and cannot start any more, whatever the clock says"
    );
    assert_eq!(journal.book().floor().seqs.len(), 1, "an older task could still start");
    journal.compact(at(1 + 900 + 121)).expect("room");
    assert!(journal.book().floor().seqs.is_empty());
    assert_eq!(journal.book().open().count(), 2, "what is held is never forgotten");
    let before = told(&journal);
    assert_eq!(told(&place.open().expect("readable")), before);
}

#[test]
fn a_full_journal_lets_go_of_acknowledged_results_but_knows_their_tasks() {
    let place = Place::new();
    let mut journal = place.open().expect("new");
    let mut ids = Vec::new();
    for n in 0..200 {
        let claimed = claim(n, 1, None);
        let (task_id, start_by) = (claimed.task_id, at(n + 600));
        journal.append(Entry::Claimed(claimed), at(n)).expect("room");
        journal.append(done(task_id, start_by, 600), at(n)).expect("room");
        journal.append(acked(task_id, start_by), at(n)).expect("room");
        ids.push(task_id);
    }
    assert!(journal.takes_claims());
    assert!(
        ids.iter()
            .all(|id| matches!(journal.book().task(*id), Some(Task::Finished(_))))
    );
    let result_of = |id: &TaskId| match journal.book().task(*id) {
        Some(Task::Finished(finished)) => finished.result.is_some(),
        _ => panic!("finished"),
    };
    assert!(!result_of(&ids[0]) && result_of(&ids[199]));
    assert_eq!(told(&place.open().expect("readable")), told(&journal));
}

#[test]
fn results_that_nobody_acknowledged_fill_it_up_and_stop_claims_only() {
    let place = Place::new();
    let mut journal = place.open().expect("new");
    let mut count = 0;
    loop {
        journal.make_room(at(count * 10)).expect("room");
        if !journal.takes_claims() {
            break;
        }
        let claimed = claim(0, 1, None);
        let task_id = claimed.task_id;
        journal.append(Entry::Claimed(claimed), at(0)).expect("room");
        journal.append(done(task_id, at(600), 2000), at(0)).expect("room");
        count += 1;
    }
    let count = usize::try_from(count).expect("small");
    assert!(count > 10);
    assert_eq!(journal.book().pending().count(), count, "none was lost");
    let mut again = place.open().expect("readable");
    assert_eq!(again.book().pending().count(), count);
    again.make_room(at(1)).expect("room");
    assert!(!again.takes_claims(), "all of it is needed");
    // Acknowledged, and their time over: the next claim finds room without anything else being written first.
    let ids: Vec<TaskId> = again.book().pending().map(|(id, _)| id).collect();
    for task_id in ids {
        again.append(acked(task_id, at(600)), at(2)).expect("room");
    }
    again.make_room(at(5)).expect("room");
    again.make_room(at(800)).expect("room");
    assert!(again.takes_claims());
}

#[test]
fn after_a_failed_write_it_takes_nothing_more() {
    let place = Place::new();
    let ids = written(&place);
    let mut journal = place.open().expect("readable");
    journal.tape.make_unwritable(&place.0.join("journal"));
    let started = || {
        Entry::Started(Started {
            task_id: ids[0],
            at: at(5),
        })
    };
    assert!(matches!(journal.append(started(), at(5)), Err(JournalError::Io(_))));
    assert!(
        matches!(journal.append(started(), at(5)), Err(JournalError::Io(_))),
        "for ever"
    );
    assert!(matches!(journal.compact(at(5)), Err(JournalError::Io(_))));
    let again = place.open().expect("readable");
    assert!(
        again
            .book()
            .open()
            .all(|(id, open)| id != ids[0] || open.started_at.is_none())
    );
}

/// Also where only an end is decoded: what leads there has to be whole, and in its order.
#[test]
fn what_does_not_lead_to_an_end_is_damage() {
    let place = Place::new();
    let claimed = claim(0, 1, Some("user/ada"));
    let (id, start_by) = (claimed.task_id, at(600));
    let claimed = || Entry::Claimed(claimed.clone());
    let started = || Entry::Started(Started { task_id: id, at: at(1) });
    let done = || done(id, start_by, 50);
    let cases: [(&[Entry], Option<&str>); 6] = [
        (&[claimed(), started(), done(), acked(id, start_by)], None),
        (&[done(), acked(id, start_by)], None),
        (&[claimed(), claimed(), done()], Some("record 2: {id} is claimed twice")),
        (&[done(), claimed()], Some("record 2: {id} is claimed twice")),
        (
            &[started(), done()],
            Some("record 1: {id} goes on without having been claimed"),
        ),
        (
            &[claimed(), done(), started()],
            Some("record 3: {id} goes on after it was done"),
        ),
    ];
    for (entries, wrong) in cases {
        let mut bytes = Vec::new();
        for (seq, entry) in (1..).zip(entries) {
            bytes.extend(frame::encode(seq, entry.kind(), &entry.body().expect("json")));
        }
        place.put(&bytes);
        let opened = place
            .open()
            .map(|journal| told(&journal))
            .map_err(|error| error.to_string());
        let whole = replay(&bytes).map(|(book, _, _)| book);
        match wrong {
            None => assert_eq!(opened.ok(), whole, "as if every record were decoded"),
            Some(why) => {
                let why = format!("the journal is damaged: {}", why.replace("{id}", &id.to_string()));
                assert_eq!(opened, Err(why));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is done, with restarts and compactions in between, reading it again gives the same book.
    #[test]
    fn replays_add_up_to_the_same(moves in prop::collection::vec(0_u8..7, 1..30)) {
        let place = Place::new();
        let mut journal = place.open().expect("new");
        let mut now = 0;
        for step in moves {
            now += 50;
            let open = journal.book().open().map(|(id, open)| (id, open.payload.start_by)).next();
            let pending = journal.book().pending().map(|(id, finished)| finished.acknowledged(id, 200)).next();
            match (step, open, pending) {
                (0, _, _) => drop(journal.append(Entry::Claimed(claim(now, 1, Some("user/a"))), at(now)).expect("room")),
                (1, Some((task_id, _)), _) => {
                    let started = Started { task_id, at: at(now) };
                    journal.append(Entry::Started(started), at(now)).expect("room");
                }
                (2, Some((task_id, start_by)), _) => {
                    journal.append(done(task_id, start_by, 50), at(now)).expect("room");
                }
                (3, _, Some(acked)) => drop(journal.append(acked, at(now)).expect("room")),
                (5, _, _) => {
                    let Entry::Done(done) = done(TaskId::new(), at(now + 600), 50) else { unreachable!() };
                    let refused = Done { refused: true, ..done };
                    journal.append(Entry::Done(refused), at(now)).expect("room");
                }
                (4, _, _) => journal.compact(at(now)).expect("room"),
                _ => {}
            }
            let before = (told(&journal), journal.next_seq());
            journal = place.open().expect("readable");
            assert_eq!((told(&journal), journal.next_seq()), before);
        }
    }
}
