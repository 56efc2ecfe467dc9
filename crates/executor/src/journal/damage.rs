//! A journal such as a node leaves behind, damaged in every way a disk or a power cut knows. What comes out is what was
//! durable before the damage, or `journal_corrupt`; never a panic, never a record that was not written, and never less
//! than everything before the damage when only the end was hit.

use std::fs;

use model::time::Timestamp;
use steps::{End, Ended, Next, Record, Way};

use super::tests::{Place, acked, at, claim, done, ends, replay, told};
use super::*;

/// Two tasks that are over, one whose result waits, one in the middle of its steps, one only claimed.
fn lived(place: &Place) -> Vec<u8> {
    let mut journal = place.open().expect("new");
    let mut write = |entry| journal.append(entry, at(9)).map(drop).expect("room");
    for n in 0..5 {
        let claimed = claim(n, n as u64 + 1, Some(&format!("user/u{n}")));
        let (task_id, start_by): (_, Timestamp) = (claimed.task_id, at(n + 600));
        write(Entry::Claimed(claimed));
        if n == 4 {
            break;
        }
        write(Entry::Started(Started { task_id, at: at(n) }));
        let walked = if n == 3 { 2 } else { 4 };
        for step in 0..walked {
            write(Entry::Step(Step {
                task_id,
                record: moved(step, 3),
            }));
        }
        if n < 3 {
            write(done(task_id, start_by, 300));
        }
        if n < 2 {
            write(acked(task_id, start_by));
        }
    }
    place.bytes()
}

fn moved(at: usize, steps: usize) -> Record {
    let name = |n: usize| format!("step-{n}");
    let ended = at.checked_sub(1).map(|before| Ended {
        way: Way::Run,
        step: name(before),
        ok: true,
        took_ms: 3,
    });
    let next = if at == steps {
        Next::End(End::Done)
    } else {
        Next::Begin {
            way: Way::Run,
            at,
            step: name(at),
        }
    };
    Record {
        table: (at == 0).then(|| (0..steps).map(name).collect()),
        ended,
        next,
        cause: None,
        facts: serde_json::json!({ "home": "/home/ada" }),
    }
}

/// What may come of bytes that are whole up to `good`: all records that end there or before, and perhaps more; or the
/// word that it is damaged.
struct Judge<'a> {
    ends: Vec<usize>,
    /// The records as they were written; what they add up to follows from them.
    records: Vec<frame::Frame<'a>>,
    cases: usize,
    corrupt: usize,
}

impl<'a> Judge<'a> {
    fn new(whole: &'a [u8]) -> Self {
        replay(whole).expect("a whole journal adds up");
        Self {
            records: frame::scan(whole).frames,
            ends: ends(whole),
            cases: 0,
            corrupt: 0,
        }
    }

    fn whole_before(&self, byte: usize) -> usize {
        self.ends.iter().filter(|end| **end <= byte).count()
    }

    fn used(&self) -> usize {
        self.ends[self.ends.len() - 1]
    }

    /// `tail`: nothing that was durable lies behind the damage, so it must be read.
    fn look(&mut self, bytes: &[u8], good: usize, tail: bool, what: &str) {
        self.cases += 1;
        let scan = frame::scan(bytes);
        if scan.tail == frame::Tail::Corrupt {
            assert!(!tail, "{what}: a torn tail is taken for damage");
            self.corrupt += 1;
            return;
        }
        let (count, least) = (scan.frames.len(), self.whole_before(good));
        assert!(count >= least, "{what}: {count} of {least} durable records");
        assert!(count <= self.records.len(), "{what}: a record that nobody wrote");
        assert!(scan.frames == self.records[..count], "{what}: not what was written");
        assert!(
            tail || count == self.records.len(),
            "{what}: durable records vanished in silence"
        );
    }
}

#[test]
fn whatever_happens_to_it_nothing_durable_vanishes_in_silence() {
    let place = Place::new();
    let whole = lived(&place);
    let mut judge = Judge::new(&whole);
    let used = judge.used();
    assert!(
        judge.ends.len() > 20 && used > 8_000,
        "a journal worth the name: {used}"
    );
    let window = used + 1024;
    let last = judge.ends[judge.ends.len() - 2];
    // Cut off, by a shorter file or by zeros, or with the garbage of another file behind it.
    for cut in 0..=used {
        judge.look(&whole[..cut], cut, true, &format!("cut at {cut}"));
        let mut bytes = whole[..window].to_vec();
        bytes[cut..].fill(0);
        judge.look(&bytes, cut, true, &format!("zeros from {cut}"));
        if cut % 13 == 0 {
            bytes[cut..].fill(0xa5);
            judge.look(&bytes, cut, true, &format!("garbage from {cut}"));
        }
    }
    // The end once more behind the end: a write that was repeated.
    for from in (0..used).step_by(13) {
        let mut bytes = whole[..used].to_vec();
        bytes.extend_from_slice(&whole[from..used]);
        bytes.resize(window.max(bytes.len()), 0);
        let before = judge.corrupt;
        judge.look(&bytes, used, false, &format!("repeated from {from}"));
        judge.corrupt = before;
    }
    // A byte turned over, a sector lost: before the last record that is damage, in it a torn end.
    for byte in (0..used).step_by(3) {
        let mut bytes = whole[..window].to_vec();
        bytes[byte] ^= 0xff;
        judge.look(&bytes, byte, byte >= last, &format!("byte {byte}"));
    }
    for sector in (0..used).step_by(64) {
        let mut bytes = whole[..window].to_vec();
        bytes[sector..sector + 512].fill(0);
        // With nothing whole behind it, nobody can tell a lost sector from one that was never written.
        let tail = sector + 512 > last;
        judge.look(&bytes, sector, tail, &format!("sector at {sector}"));
    }
    assert!(judge.cases > 2 * used + used / 3, "{} cases", judge.cases);
    assert!(judge.corrupt > last / 4, "{} seen as damage", judge.corrupt);
}

/// The same through the file: what is cut is cut for good, and the journal goes on.
#[test]
fn a_damaged_file_is_cut_or_left_alone() {
    let place = Place::new();
    let whole = lived(&place);
    let ends = ends(&whole);
    let used = ends[ends.len() - 1];
    let mut cases = 0;
    for cut in (0..used)
        .step_by(211)
        .chain(ends.iter().flat_map(|end| [end - 1, *end]))
    {
        cases += 1;
        fs::write(place.0.join("journal"), &whole[..cut]).expect("written");
        let mut journal = place.open().unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let count = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(journal.next_seq(), count as u64 + 1, "cut at {cut}");
        journal.append(Entry::Claimed(claim(9, 99, None)), at(9)).expect("room");
        assert_eq!(told(&place.open().expect("readable")), told(&journal), "cut at {cut}");
    }
    for byte in (0..ends[ends.len() - 2]).step_by(211) {
        cases += 1;
        let mut bytes = whole.clone();
        bytes[byte] ^= 0xff;
        place.put(&bytes);
        let error = place.open().map(drop).expect_err("damaged");
        assert_eq!(error.code(), Code::JournalCorrupt, "byte {byte}");
        assert_eq!(place.bytes(), bytes, "left as it is");
    }
    assert!(cases > 100, "{cases} cases");
}

/// What lies behind the end is looked at to the last byte, however far behind.
#[test]
fn a_long_silence_hides_nothing() {
    const LONG: u64 = 2 << 20;
    let place = Place::new();
    let mut journal = Journal::open(&place.0, LONG).expect("new");
    journal.append(Entry::Claimed(claim(1, 1, None)), at(1)).expect("room");
    let whole = place.bytes();
    let far = whole.len() - 4096;
    let mut bytes = whole.clone();
    bytes[far] = 1;
    place.put(&bytes);
    let again = Journal::open(&place.0, LONG).expect("a torn write is cut");
    assert_eq!((told(&again), place.bytes() == whole), (told(&journal), true));
    let lost = frame::encode(journal.next_seq() + 1, 2, b"{}");
    bytes[far..far + lost.len()].copy_from_slice(&lost);
    place.put(&bytes);
    let error = Journal::open(&place.0, LONG).map(drop).expect_err("damaged");
    assert_eq!(error.code(), Code::JournalCorrupt);
    assert_eq!(place.bytes(), bytes, "left as it is");
}
