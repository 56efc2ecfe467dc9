//! A failed sync under the slots: what is shown afterwards is on the disk before anything is built on it.

use std::cell::{Cell, RefCell};

use model::digest::Sha256;

use super::super::Enrolling;
use super::*;

/// A slot, what its disk has of it, and whether the kernel still means to write it there.
#[derive(Default)]
struct Flaky {
    shown: RefCell<Vec<u8>>,
    disk: RefCell<Vec<u8>>,
    dirty: Cell<bool>,
    fails: Cell<bool>,
    /// It takes no write at all.
    broken: Cell<bool>,
}

impl Medium for &Flaky {
    fn put(&self, bytes: &[u8]) -> io::Result<()> {
        if self.broken.get() {
            return Err(io::ErrorKind::Other.into());
        }
        let mut shown = self.shown.borrow_mut();
        shown[..bytes.len()].copy_from_slice(bytes);
        self.dirty.set(true);
        Ok(())
    }

    /// One that fails is not tried again: what is shown counts as written from then on.
    fn sync(&self) -> io::Result<()> {
        let dirty = self.dirty.replace(false);
        if self.fails.get() {
            return Err(io::ErrorKind::Other.into());
        }
        if dirty {
            self.disk.replace(self.shown.borrow().clone());
        }
        Ok(())
    }
}

fn opened(files: &[Flaky; 2]) -> Slots<&Flaky> {
    let found = [0, 1].map(|index| files[index].shown.borrow().clone());
    Slots::going_on(Path::new("here"), [&files[0], &files[1]], &found)
}

fn keep(slots: &Slots<&Flaky>, word: &str) -> Result<(), SlotError> {
    slots.change(|kept| {
        kept.enrolling = Some(Enrolling {
            token_sha256: Sha256::of(b"token"),
            working_key: word.to_owned(),
        });
    })
}

fn word(slots: &Slots<&Flaky>) -> Option<String> {
    slots.kept().enrolling.map(|kept| kept.working_key)
}

fn blank() -> [Flaky; 2] {
    let files = [Flaky::default(), Flaky::default()];
    for file in &files {
        file.shown.replace(vec![0; SLOT_BYTES]);
        file.disk.replace(vec![0; SLOT_BYTES]);
    }
    files
}

/// Another build may write the same in other words, and a write that changes anything can be torn.
#[test]
fn what_is_written_again_is_what_was_read_to_the_byte() {
    let files = blank();
    keep(&opened(&files), "first").expect("room");
    let slot = files[0].shown.borrow().clone();
    let (_, rest) = slot.split_at(HEAD);
    let end = rest.iter().position(|byte| *byte == 0).expect("zeros to the end");
    let body = [&rest[..end], b" \n"].concat();
    let (sequence, length) = (1u64.to_be_bytes(), (body.len() as u32).to_be_bytes());
    let sum = checksum(&sequence, &length, &body).to_be_bytes();
    let mut other = [MAGIC.as_slice(), &sequence, &length, &sum, &body].concat();
    other.resize(SLOT_BYTES, 0);
    for copy in [&files[0].shown, &files[0].disk] {
        copy.replace(other.clone());
    }
    let slots = opened(&files);
    assert_eq!(word(&slots).as_deref(), Some("first"));
    assert!(*files[0].disk.borrow() == other, "not a byte is another");
}

#[test]
fn a_disk_that_takes_nothing_keeps_nobody_from_starting() {
    let files = blank();
    let slots = opened(&files);
    keep(&slots, "first").expect("room");
    keep(&slots, "second").expect("room");
    files[1].broken.set(true);
    let slots = opened(&files);
    assert_eq!(word(&slots).as_deref(), Some("second"), "it goes on with what was read");
    // What may be nowhere but in memory is not followed by a write over the other.
    let before = files[0].disk.borrow().clone();
    assert!(keep(&slots, "third").is_err());
    assert!(*files[0].disk.borrow() == before);
    files[1].broken.set(false);
    keep(&slots, "third").expect("both take writes again");
    assert_eq!(word(&opened(&files)).as_deref(), Some("third"));
}

#[test]
fn what_a_failed_sync_left_is_written_again_before_the_other_slot_is() {
    let files = blank();
    let slots = opened(&files);
    keep(&slots, "first").expect("room");
    keep(&slots, "second").expect("room");
    files[0].fails.set(true);
    assert!(keep(&slots, "third").is_err(), "it is not durable, and says so");
    assert_eq!(word(&slots).as_deref(), Some("second"));
    // The process ends over it, and the next one is shown it all the same.
    files[0].fails.set(false);
    let slots = opened(&files);
    assert_eq!(word(&slots).as_deref(), Some("third"));
    // It goes on from there, into the other slot, and the power fails in the middle of that.
    files[1].fails.set(true);
    assert!(keep(&slots, "fourth").is_err());
    files[1].disk.borrow_mut()[HEAD..].fill(0);
    for file in &files {
        file.shown.replace(file.disk.borrow().clone());
    }
    assert_eq!(
        word(&opened(&files)).as_deref(),
        Some("third"),
        "what was acted on is there"
    );
}
