//! Two files of fixed size, written in turn and in place. A file that exists already takes writes on a full disk; a
//! write that is torn leaves the other file, which is one write older and whole. The newer valid one wins, and is written
//! again when it is opened, byte for byte: after a failed sync the kernel may show what the disk never took, and the next
//! write goes over the only file that it did take. Where that fails the agent starts all the same, and nothing else is
//! written before.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::FlockOperation;

use super::Kept;

pub const SLOT_BYTES: usize = 64 * 1024;
const NAMES: [&str; 2] = ["identity.a", "identity.b"];
const MAGIC: &[u8; 8] = b"gpuaasI1";
/// Magic, sequence, length, checksum.
const HEAD: usize = 8 + 8 + 4 + 4;

#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{0}: another agent runs here")]
    AlreadyRunning(PathBuf),
    #[error("the identity has outgrown its slot: {0} bytes")]
    TooLarge(usize),
}

/// What a slot is written to.
pub trait Medium {
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
pub struct Slots<M = File> {
    dir: PathBuf,
    files: [M; 2],
    current: Mutex<Current>,
}

#[derive(Debug, Default)]
struct Current {
    kept: Kept,
    sequence: u64,
    /// Where the next write goes.
    next: usize,
    /// What the other slot shows, until it was written once more.
    unsettled: Option<Vec<u8>>,
}

impl Slots {
    /// Makes the two files if need be, and takes them for this process alone.
    pub fn open(dir: &Path) -> Result<Self, SlotError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| SlotError::Io { path, source }
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(at(dir))?;
        let [a, b] = NAMES.map(|name| {
            let path = dir.join(name);
            ensure(&path).map_err(at(&path))
        });
        let files = [a?, b?];
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(at(dir))?;
        rustix::fs::flock(&files[0], FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| SlotError::AlreadyRunning(dir.to_owned()))?;
        Ok(Self::going_on(dir, files, &read(dir).map_err(at(dir))?))
    }

    /// What is kept, without taking the files: for a tool beside a running agent.
    pub fn peek(dir: &Path) -> Result<Kept, SlotError> {
        read(dir)
            .map(|found| newest(&found).kept)
            .map_err(|source| SlotError::Io {
                path: dir.to_owned(),
                source,
            })
    }
}

impl<M: Medium> Slots<M> {
    /// From what was found.
    fn going_on(dir: &Path, files: [M; 2], found: &[Vec<u8>; 2]) -> Self {
        let current = newest(found);
        let this = Self {
            dir: dir.to_owned(),
            files,
            current: Mutex::new(current),
        };
        let settled = this.settle(&mut this.lock());
        if let Err(error) = settled {
            tracing::error!(%error, "what the newest slot shows may not be on the disk; it is tried again before the next change");
        }
        this
    }

    /// Has the disk take what it may only seem to have.
    fn settle(&self, current: &mut Current) -> Result<(), SlotError> {
        if let Some(shown) = &current.unsettled {
            self.write(1 - current.next, shown)?;
            current.unsettled = None;
        }
        Ok(())
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn kept(&self) -> Kept {
        self.lock().kept.clone()
    }

    /// Changes what is kept. Durable when it returns; on an error the older slot still stands.
    pub fn change(&self, change: impl FnOnce(&mut Kept)) -> Result<(), SlotError> {
        let mut current = self.lock();
        let mut kept = current.kept.clone();
        change(&mut kept);
        let sequence = current.sequence + 1;
        let bytes = encode(sequence, &kept)?;
        self.settle(&mut current)?;
        self.write(current.next, &bytes)?;
        *current = Current {
            kept,
            sequence,
            next: 1 - current.next,
            unsettled: None,
        };
        Ok(())
    }

    fn write(&self, slot: usize, bytes: &[u8]) -> Result<(), SlotError> {
        let file = &self.files[slot];
        let written = file.put(bytes).and_then(|()| file.sync());
        written.map_err(|source| SlotError::Io {
            path: self.dir.join(NAMES[slot]),
            source,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file with all its blocks, readable by its owner alone.
fn ensure(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    let long = file.metadata()?.len();
    if let Some(missing) = (SLOT_BYTES as u64).checked_sub(long).filter(|missing| *missing > 0) {
        // Zeros and not a hole or a reservation: every block is written once before it is ever needed.
        file.write_all_at(&vec![0; missing as usize], long)?;
        file.sync_all()?;
    }
    Ok(file)
}

/// What the files show; nothing where there is none.
fn read(dir: &Path) -> io::Result<[Vec<u8>; 2]> {
    let [a, b] = NAMES.map(|name| match fs::read(dir.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    });
    Ok([a?, b?])
}

fn newest(found: &[Vec<u8>; 2]) -> Current {
    let mut best = Current::default();
    for (index, (bytes, name)) in found.iter().zip(NAMES).enumerate() {
        match decode(bytes) {
            Some((sequence, kept)) if sequence > best.sequence => {
                best = Current {
                    kept,
                    sequence,
                    next: 1 - index,
                    unsettled: Some(bytes.clone()),
                }
            }
            Some(_) => {}
            None if bytes.iter().all(|byte| *byte == 0) => {}
            None => tracing::warn!(slot = name, "torn or foreign, ignored"),
        }
    }
    best
}

fn encode(sequence: u64, kept: &Kept) -> Result<Vec<u8>, SlotError> {
    let body = serde_json::to_vec(kept).expect("strings and numbers only");
    if HEAD + body.len() > SLOT_BYTES {
        return Err(SlotError::TooLarge(body.len()));
    }
    let length = (body.len() as u32).to_be_bytes();
    let mut slot = MAGIC.to_vec();
    slot.extend_from_slice(&sequence.to_be_bytes());
    slot.extend_from_slice(&length);
    slot.extend_from_slice(&checksum(&sequence.to_be_bytes(), &length, &body).to_be_bytes());
    slot.extend_from_slice(&body);
    Ok(slot)
}

fn decode(slot: &[u8]) -> Option<(u64, Kept)> {
    let rest = slot.strip_prefix(MAGIC)?;
    let (sequence, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let body = rest.get(..u32::from_be_bytes(*length) as usize)?;
    if checksum(sequence, length, body) != u32::from_be_bytes(*sum) {
        return None;
    }
    Some((u64::from_be_bytes(*sequence), serde_json::from_slice(body).ok()?))
}

fn checksum(sequence: &[u8; 8], length: &[u8; 4], body: &[u8]) -> u32 {
    let head = crc32c::crc32c_append(crc32c::crc32c(sequence), length);
    crc32c::crc32c_append(head, body)
}

#[cfg(test)]
mod tests;
