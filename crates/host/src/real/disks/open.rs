//! A disk that passed the guard: markers, wipe and read-back through one open file. An error of the disk anywhere means
//! that nothing is proved.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};

use model::proof::WipeMethod;
use model::value::DiskIdentity;
use rustix::fs::{FallocateFlags, fallocate};

use super::controller::Controller;
use super::direct::{self, Buffer, pieces};
use super::signatures;
use crate::disks::{not_offered, unproved};
use crate::{BLOCK_BYTES, Error, Markers, OpenDisk, Result, Sought, Wiped};

const PIECE_BYTES: usize = 8 << 20;
const READERS: usize = 4;
/// The kernel is asked for so much at once: it can be interrupted in between.
const ZEROED_AT_ONCE: usize = 1 << 30;

pub(super) struct Opened {
    pub(super) identity: DiskIdentity,
    /// Keeps everybody else away.
    pub(super) file: File,
    pub(super) direct: File,
    /// If all of it is ours.
    pub(super) controller: Option<Controller>,
    pub(super) has_write_zeroes: bool,
}

impl Opened {
    fn failed(&self, doing: &str) -> impl Fn(std::io::Error) -> Error {
        move |error| unproved(&self.identity, format!("cannot {doing}: {error}"))
    }

    fn overwrite(&self) -> std::io::Result<()> {
        let zeros = Buffer::zeros(PIECE_BYTES);
        for (offset, length) in pieces(self.identity.size_bytes, PIECE_BYTES) {
            direct::write(&self.direct, &zeros.get()[..length], offset)?;
        }
        self.direct.sync_data()
    }

    fn write_zeroes(&self) -> std::io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for (offset, length) in pieces(self.identity.size_bytes, ZEROED_AT_ONCE) {
            fallocate(&self.file, flags, offset, length as u64)?;
        }
        self.file.sync_data()
    }

    /// How many of the markers are as `is_it` wants them, read from the disk by several at once: it answers better so.
    fn count_markers(&self, markers: &Markers, is_it: impl Fn(u64, &[u8]) -> bool + Sync) -> std::io::Result<u32> {
        let offsets: Vec<u64> = markers.offsets().collect();
        let count = |part: &[u64]| {
            let mut block = Buffer::zeros(BLOCK_BYTES);
            let mut found = 0;
            for offset in part {
                direct::read(&self.direct, block.get_mut(), *offset)?;
                found += u32::from(is_it(*offset, block.get()));
            }
            Ok(found)
        };
        std::thread::scope(|scope| {
            let share = offsets.len().div_ceil(READERS).max(1);
            let readers: Vec<_> = offsets.chunks(share).map(|part| scope.spawn(|| count(part))).collect();
            let lost = || std::io::Error::other("a reader was lost");
            readers
                .into_iter()
                .map(|reader| reader.join().unwrap_or_else(|_| Err(lost())))
                .sum()
        })
    }

    fn signatures(&self) -> std::io::Result<u32> {
        let size = self.identity.size_bytes;
        let length = |most: usize| usize::try_from(size).unwrap_or(most).min(most);
        let (mut start, mut end) = (
            Buffer::zeros(length(signatures::START_BYTES)),
            Buffer::zeros(length(signatures::END_BYTES)),
        );
        direct::read(&self.direct, start.get_mut(), 0)?;
        let from = size - end.get().len() as u64;
        direct::read(&self.direct, end.get_mut(), from)?;
        Ok(signatures::count(start.get(), end.get()))
    }

    /// How much was read, and how many blocks of it are not zero.
    fn read_back(&self) -> std::io::Result<(u64, u64)> {
        let zeros = vec![0; PIECE_BYTES];
        let mut piece = Buffer::zeros(PIECE_BYTES);
        let (mut read, mut not_zero) = (0, 0);
        for (offset, length) in pieces(self.identity.size_bytes, PIECE_BYTES) {
            let bytes = &mut piece.get_mut()[..length];
            direct::read(&self.direct, bytes, offset)?;
            read += length as u64;
            if bytes != &zeros[..length] {
                let blocks = bytes.chunks(BLOCK_BYTES).zip(zeros.chunks(BLOCK_BYTES));
                not_zero += blocks.filter(|(block, zero)| **block != zero[..block.len()]).count() as u64;
            }
        }
        Ok((read, not_zero))
    }
}

impl OpenDisk for Opened {
    fn identity(&self) -> &DiskIdentity {
        &self.identity
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn wipe_methods(&self) -> Result<Vec<WipeMethod>> {
        let of_controller = self.controller.iter().flat_map(Controller::offers).copied();
        let zeroes = self.has_write_zeroes.then_some(WipeMethod::WriteZeroes);
        Ok(of_controller.chain(zeroes).chain([WipeMethod::Overwrite]).collect())
    }

    fn plant(&self, markers: &Markers) -> Result<u32> {
        if let Some(controller) = &self.controller {
            let waited = controller.wait_for_earlier();
            waited.map_err(|words| unproved(&self.identity, words))?;
        }
        // Through the page cache, which writes them together; read past it, so that it is the disk that answers.
        for offset in markers.offsets() {
            let written = direct::write(&self.file, &markers.block(offset), offset);
            written.map_err(self.failed("plant a marker"))?;
        }
        self.file.sync_data().map_err(self.failed("plant a marker"))?;
        let planted = self.count_markers(markers, |offset, read| read == markers.block(offset));
        match planted.map_err(self.failed("read a marker back"))? {
            all if all == markers.count() => Ok(all),
            _ => Err(unproved(&self.identity, "a marker reads otherwise than it was written")),
        }
    }

    fn wipe(&self, method: WipeMethod) -> Result<Wiped> {
        if !self.wipe_methods()?.contains(&method) {
            return Err(not_offered(&self.identity, method));
        }
        if let Some(controller) = self.controller.as_ref().filter(|_| method.reaches_the_controller()) {
            let rc = controller
                .wipe(method)
                .map_err(|words| unproved(&self.identity, words))?;
            return Ok(Wiped { method, tool_rc: rc });
        }
        let (method, wiped) = match method {
            WipeMethod::WriteZeroes => match self.write_zeroes() {
                // Some say that they can and cannot: then it is done by hand, and said so.
                Err(error) if error.kind() == ErrorKind::Unsupported => (WipeMethod::Overwrite, self.overwrite()),
                wiped => (method, wiped),
            },
            WipeMethod::Overwrite => (method, self.overwrite()),
            WipeMethod::SanitizeCrypto
            | WipeMethod::SanitizeBlock
            | WipeMethod::FormatCrypto
            | WipeMethod::FormatData => return Err(not_offered(&self.identity, method)),
        };
        wiped.map_err(self.failed("wipe it"))?;
        Ok(Wiped { method, tool_rc: 0 })
    }

    fn seek(&self, markers: &Markers, method: WipeMethod) -> Result<Sought> {
        let failed = || self.failed("read it after the wipe");
        let (read_back_bytes, blocks_not_zero) = match method.leaves_zeros() {
            true => self.read_back().map_err(failed())?,
            false => (0, 0),
        };
        // Where every block is zero there is no marker; else each is looked for.
        let markers_found = match method.leaves_zeros() && blocks_not_zero == 0 {
            true => 0,
            false => self
                .count_markers(markers, |offset, read| markers.is_left(offset, read))
                .map_err(failed())?,
        };
        Ok(Sought {
            markers_found,
            signatures_found: self.signatures().map_err(failed())?,
            read_back_bytes,
            blocks_not_zero,
        })
    }
}
