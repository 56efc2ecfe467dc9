//! One document in two files of fixed size, written in turn and in place. Files that exist take writes on a full disk;
//! a write that is torn or fails leaves the other file, which is one write older and whole. The newer valid one wins.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::durable;

const SIZE: usize = 256 * 1024;
const MAGIC: &[u8; 8] = b"gpuaasD1";
/// Magic, sequence, length, checksum.
const HEAD: usize = 8 + 8 + 4 + 4;

#[derive(Debug)]
pub(crate) struct Pair {
    files: [File; 2],
    sequence: u64,
    /// Where the next write goes.
    next: usize,
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
        let mut pair = Self {
            files,
            sequence: 0,
            next: 0,
            size,
        };
        let mut newest = None;
        for index in 0..2 {
            let mut bytes = vec![0; size];
            pair.files[index].read_exact_at(&mut bytes, 0)?;
            match decode(&bytes) {
                Some((sequence, body)) if sequence > pair.sequence => {
                    (pair.sequence, pair.next) = (sequence, 1 - index);
                    newest = Some(body.to_vec());
                }
                Some(_) => {}
                None if bytes.iter().all(|byte| *byte == 0) => {}
                None => tracing::warn!(name, index, "torn, ignored"),
            }
        }
        Ok((pair, newest))
    }

    /// Durable when it returns; on an error the older file still stands.
    pub(crate) fn write(&mut self, body: &[u8]) -> io::Result<()> {
        if HEAD + body.len() > self.size {
            return Err(io::Error::other(format!("{} bytes do not fit", body.len())));
        }
        let file = &self.files[self.next];
        file.write_all_at(&encode(self.sequence + 1, body), 0)?;
        file.sync_data()?;
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
    use super::*;

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
