//! One document in two files of fixed size, written in turn and in place. Files that exist take writes on a full disk;
//! a write that is torn or fails leaves the other file, which is one write older and whole. The newer valid one wins, and
//! is written again when it is opened: after a failed sync the kernel may show what the disk never took, and the next
//! write goes over the only file that it did take. Where that fails it opens all the same, and nothing else is written
//! before.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::durable;

const SIZE: usize = 256 * 1024;
const MAGIC: &[u8; 8] = b"gpuaasD1";
/// Magic, sequence, length, checksum.
const HEAD: usize = 8 + 8 + 4 + 4;

/// What half of a pair is written to.
pub(crate) trait Medium {
    fn put(&self, bytes: &[u8]) -> io::Result<()>;
    fn sync(&self) -> io::Result<()>;
}

impl Medium for File {
    fn put(&self, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, 0)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

#[derive(Debug)]
pub(crate) struct Pair<M = File> {
    files: [M; 2],
    sequence: u64,
    /// Where the next write goes.
    next: usize,
    /// What the other file shows, until it was written once more.
    unsettled: Option<Vec<u8>>,
    size: usize,
}

impl Pair {
    /// The pair `name.a`, `name.b`, made if need be, and what it holds.
    pub(crate) fn open(dir: &Path, name: &str) -> io::Result<(Self, Option<Vec<u8>>)> {
        Self::sized(dir, name, SIZE)
    }

    /// The same for documents that are known to be small.
    pub(crate) fn sized(dir: &Path, name: &str, size: usize) -> io::Result<(Self, Option<Vec<u8>>)> {
        let files = [
            ensure(&dir.join(format!("{name}.a")), size)?,
            ensure(&dir.join(format!("{name}.b")), size)?,
        ];
        durable::sync_dir(dir)?;
        let read = |file: &File| {
            let mut bytes = vec![0; size];
            file.read_exact_at(&mut bytes, 0).map(|()| bytes)
        };
        let found = [read(&files[0])?, read(&files[1])?];
        Ok(Pair::found(name, files, &found))
    }
}

impl<M: Medium> Pair<M> {
    /// Files with what they show.
    fn found(name: &str, files: [M; 2], found: &[Vec<u8>; 2]) -> (Self, Option<Vec<u8>>) {
        let mut pair = Self {
            files,
            sequence: 0,
            next: 0,
            unsettled: None,
            size: found[0].len(),
        };
        let mut newest = None;
        for (index, bytes) in found.iter().enumerate() {
            match decode(bytes) {
                Some((sequence, body)) if sequence > pair.sequence => {
                    (pair.sequence, pair.next) = (sequence, 1 - index);
                    newest = Some(body.to_vec());
                }
                Some(_) => {}
                None if bytes.iter().all(|byte| *byte == 0) => {}
                None => tracing::warn!(name, index, "torn, ignored"),
            }
        }
        pair.unsettled = newest.as_ref().map(|body| encode(pair.sequence, body));
        if let Err(error) = pair.settle() {
            tracing::error!(name, %error, "what the newest file shows may not be on the disk; it is tried again before the next write");
        }
        (pair, newest)
    }

    /// Has the disk take what it may only seem to have.
    fn settle(&mut self) -> io::Result<()> {
        if let Some(shown) = &self.unsettled {
            let file = &self.files[1 - self.next];
            file.put(shown)?;
            file.sync()?;
            self.unsettled = None;
        }
        Ok(())
    }

    /// Durable when it returns; on an error the older file still stands.
    pub(crate) fn write(&mut self, body: &[u8]) -> io::Result<()> {
        if HEAD + body.len() > self.size {
            return Err(io::Error::other(format!("{} bytes do not fit", body.len())));
        }
        self.settle()?;
        let file = &self.files[self.next];
        file.put(&encode(self.sequence + 1, body))?;
        file.sync()?;
        (self.sequence, self.next) = (self.sequence + 1, 1 - self.next);
        Ok(())
    }
}

/// The file with all its blocks: zeros and not a hole, so that every block was written once before it is needed.
fn ensure(path: &Path, size: usize) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path)?;
    let long = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    if long < size {
        file.write_all_at(&vec![0; size - long], long as u64)?;
        file.sync_all()?;
    }
    Ok(file)
}

fn encode(sequence: u64, body: &[u8]) -> Vec<u8> {
    let (sequence, length) = (sequence.to_le_bytes(), (body.len() as u32).to_le_bytes());
    let sum = checksum(&sequence, body).to_le_bytes();
    [MAGIC.as_slice(), &sequence, &length, &sum, body].concat()
}

fn decode(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (sequence, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let body = rest.get(..u32::from_le_bytes(*length) as usize)?;
    let sequence_number = u64::from_le_bytes(*sequence);
    (checksum(sequence, body) == u32::from_le_bytes(*sum)).then_some((sequence_number, body))
}

fn checksum(sequence: &[u8; 8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(sequence), body)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// A file, what its disk has of it, and whether the kernel still means to write it there.
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
            self.shown.borrow_mut()[..bytes.len()].copy_from_slice(bytes);
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

    fn opened(files: &[Flaky; 2]) -> (Pair<&Flaky>, Option<Vec<u8>>) {
        let found = [0, 1].map(|index| files[index].shown.borrow().clone());
        Pair::found("it", [&files[0], &files[1]], &found)
    }

    fn blank() -> [Flaky; 2] {
        let files = [Flaky::default(), Flaky::default()];
        for file in &files {
            file.shown.replace(vec![0; SIZE]);
            file.disk.replace(vec![0; SIZE]);
        }
        files
    }

    #[test]
    fn a_disk_that_takes_nothing_keeps_nobody_from_starting() {
        let files = blank();
        let (mut pair, _) = opened(&files);
        pair.write(b"first").expect("room");
        pair.write(b"second").expect("room");
        files[1].broken.set(true);
        let (mut pair, found) = opened(&files);
        assert_eq!(found.as_deref(), Some(b"second".as_slice()));
        // What may be nowhere but in memory is not followed by a write over the other.
        let before = files[0].disk.borrow().clone();
        assert!(pair.write(b"third").is_err());
        assert!(*files[0].disk.borrow() == before);
        files[1].broken.set(false);
        pair.write(b"third").expect("both take writes again");
        assert_eq!(opened(&files).1.as_deref(), Some(b"third".as_slice()));
    }

    #[test]
    fn what_a_failed_sync_left_is_written_again_before_the_other_file_is() {
        let files = blank();
        let (mut pair, _) = opened(&files);
        pair.write(b"first").expect("room");
        pair.write(b"second").expect("room");
        files[0].fails.set(true);
        assert!(pair.write(b"third").is_err(), "it is not durable, and says so");
        // The process ends over it, and the next one is shown it all the same.
        files[0].fails.set(false);
        let (mut pair, found) = opened(&files);
        assert_eq!(found.as_deref(), Some(b"third".as_slice()));
        // It goes on from there, into the other file, and the power fails in the middle of that.
        files[1].fails.set(true);
        assert!(pair.write(b"fourth").is_err());
        files[1].disk.borrow_mut()[HEAD..].fill(0);
        for file in &files {
            file.shown.replace(file.disk.borrow().clone());
        }
        let (_, found) = opened(&files);
        assert_eq!(
            found.as_deref(),
            Some(b"third".as_slice()),
            "what was acted on is there"
        );
    }

    /// The second write is torn at every byte of its head and at many of its body: the first one stands, or the second.
    #[test]
    fn a_torn_write_leaves_the_one_before() {
        let dir = std::env::temp_dir().join(format!("executor-pair-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let (mut pair, none) = Pair::open(&dir, "it").expect("made");
        assert!(none.is_none());
        pair.write(b"first").expect("room");
        let torn = encode(2, &[7; 5000]);
        for cut in (0..HEAD).chain((HEAD..torn.len()).step_by(61)) {
            let mut bytes = torn.clone();
            bytes[cut..].fill(0);
            bytes.resize(SIZE, 0);
            std::fs::write(dir.join("it.b"), &bytes).expect("written");
            let (mut pair, found) = Pair::open(&dir, "it").expect("readable");
            assert_eq!(found.as_deref(), Some(b"first".as_slice()), "cut at {cut}");
            // And the next write goes where the torn one was, not over the good one.
            pair.write(b"second").expect("room");
            let (_, found) = Pair::open(&dir, "it").expect("readable");
            assert_eq!(found.as_deref(), Some(b"second".as_slice()));
        }
        assert!(pair.write(&vec![0; SIZE]).is_err(), "what does not fit is refused");
        std::fs::remove_dir_all(&dir).expect("removable");
    }
}
