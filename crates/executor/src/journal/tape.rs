//! The journal's file: allocated whole when it is made, so that a full disk cannot stop a task half-way, and written
//! by one `pwrite` and one `fdatasync` per record. After the first error it takes nothing more: what is durable is
//! then only known by reading it again.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FallocateFlags, RenameFlags, fallocate, renameat_with};

use super::frame::{self, Tail};
use crate::durable;

const NAME: &str = "journal";
/// As large as the journal itself: the room that compaction needs is there before the disk is full.
const SPARE: &str = "journal.spare";
/// Read at once. It stays in the processor's cache, where sixteen fresh megabytes would not.
const PIECE: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Tape {
    dir: PathBuf,
    file: File,
    size: u64,
    end: u64,
    next_seq: u64,
    broken: bool,
}

/// What was in the file when it was opened.
#[derive(Debug)]
pub(super) struct Found {
    bytes: Vec<u8>,
    /// Sequence number, kind, where the body is.
    records: Vec<(u64, u8, Range<usize>)>,
}

impl Found {
    pub(super) fn records(&self) -> impl Iterator<Item = (u64, u8, &[u8])> {
        let records = self.records.iter();
        records.map(|(seq, kind, body)| (*seq, *kind, &self.bytes[body.clone()]))
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum TapeError {
    #[error("the journal cannot be read or written")]
    Io(#[from] io::Error),
    #[error("a good record follows a bad one at byte {at}")]
    Corrupt { at: usize },
    #[error("the journal has no room for {0} more bytes")]
    Full(usize),
    #[error("the journal failed before and has to be read again")]
    Broken,
}

impl Tape {
    /// Opens or makes the journal in `dir`. An existing one keeps its size.
    pub(super) fn open(dir: &Path, size: u64) -> Result<(Self, Found), TapeError> {
        let file = open_sized(&dir.join(NAME), size)?;
        open_sized(&dir.join(SPARE), size)?;
        durable::sync_parent(&dir.join(NAME))?;
        let size = file.metadata()?.len();
        let bytes = read_used(&file, size)?;
        let scan = frame::scan(&bytes);
        let end = scan.end as u64;
        match scan.tail {
            Tail::Clean => {}
            Tail::Torn => {
                let last = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(scan.end);
                tracing::warn!(at = scan.end, bytes = last + 1 - scan.end, "journal: torn tail cut");
                write_zeros(&file, end, last as u64 + 1)?;
                file.sync_data()?;
            }
            Tail::Corrupt => return Err(TapeError::Corrupt { at: scan.end }),
        }
        if let Some(last) = scan.frames.last() {
            write_again(&file, scan.end - last.size(), &bytes[..scan.end])?;
        }
        let next_seq = scan.frames.last().map_or(1, |last| last.seq + 1);
        let mut at = 0;
        let records = scan.frames.iter().map(|frame| {
            at += frame.size();
            (frame.seq, frame.kind, at - frame.body.len()..at)
        });
        let records = records.collect();
        let dir = dir.to_owned();
        Ok((
            Self {
                dir,
                file,
                size,
                end,
                next_seq,
                broken: false,
            },
            Found { bytes, records },
        ))
    }

    /// Durable when it returns.
    pub(super) fn append(&mut self, kind: u8, body: &[u8]) -> Result<u64, TapeError> {
        if self.broken {
            return Err(TapeError::Broken);
        }
        let seq = self.next_seq;
        let record = frame::encode(seq, kind, body);
        if body.len() > frame::MAX_BODY || self.end + record.len() as u64 > self.size {
            return Err(TapeError::Full(record.len()));
        }
        let written = self
            .file
            .write_all_at(&record, self.end)
            .and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            self.broken = true;
            return Err(error.into());
        }
        self.end += record.len() as u64;
        self.next_seq += 1;
        Ok(seq)
    }

    /// Puts `bodies` in the place of everything: into the spare, which then changes names with the journal.
    pub(super) fn replace(&mut self, bodies: &[(u8, Vec<u8>)]) -> Result<(), TapeError> {
        if self.broken {
            return Err(TapeError::Broken);
        }
        let mut image = Vec::new();
        let mut seq = self.next_seq;
        for (kind, body) in bodies {
            image.extend(frame::encode(seq, *kind, body));
            seq += 1;
        }
        if image.len() as u64 > self.size {
            return Err(TapeError::Full(image.len()));
        }
        let (name, spare) = (self.dir.join(NAME), self.dir.join(SPARE));
        let file = open_sized(&spare, self.size)?;
        file.write_all_at(&image, 0)?;
        write_zeros(&file, image.len() as u64, self.size)?;
        file.sync_all()?;
        let swapped = renameat_with(CWD, &spare, CWD, &name, RenameFlags::EXCHANGE)
            .map_err(io::Error::from)
            .and_then(|()| durable::sync_parent(&name));
        if let Err(error) = swapped {
            // Either name may hold either file now.
            self.broken = true;
            return Err(error.into());
        }
        (self.file, self.end, self.next_seq) = (file, image.len() as u64, seq);
        Ok(())
    }

    /// Writing fails from here on, as on a disk that has died.
    #[cfg(test)]
    pub(super) fn make_unwritable(&mut self, path: &Path) {
        self.file = File::open(path).expect("readable");
    }

    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn used(&self) -> u64 {
        self.end
    }
}

/// What the file says, without the zeros behind it: every start looks at all of them, but keeps none.
fn read_used(file: &File, size: u64) -> io::Result<Vec<u8>> {
    let mut file = file.take(size);
    let (mut bytes, mut zeros) = (Vec::new(), 0);
    let mut piece = vec![0; PIECE];
    loop {
        let count = match file.read(&mut piece) {
            Ok(0) => return Ok(bytes),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if frame::all_zero(&piece[..count]) {
            zeros += count;
            continue;
        }
        bytes.resize(bytes.len() + zeros, 0);
        zeros = 0;
        bytes.extend_from_slice(&piece[..count]);
    }
}

/// The record that was written last, once more. After a failed sync the kernel may still show it although the disk
/// never took it, and all the earlier ones are durable: each was synced before the next was written.
fn write_again(mut file: &File, from: usize, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(from as u64))?;
    file.write_all(&bytes[from..])?;
    file.sync_all()
}

/// The file, at least `size` long and with its blocks allocated.
fn open_sized(path: &Path, size: u64) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path)?;
    let length = file.metadata()?.len();
    if length < size {
        match fallocate(&file, FallocateFlags::empty(), length, size - length) {
            Ok(()) => {}
            Err(rustix::io::Errno::OPNOTSUPP) => write_zeros(&file, length, size)?,
            Err(error) => return Err(error.into()),
        }
        file.sync_all()?;
    }
    Ok(file)
}

fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = [0; 64 * 1024];
    let mut at = from;
    while at < to {
        let count = (to - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..count as usize], at)?;
        at += count;
    }
    Ok(())
}
