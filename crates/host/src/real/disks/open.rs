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

    fn markers_left(&self, markers: &Markers) -> std::io::Result<u32> {
        let mut block = Buffer::zeros(BLOCK_BYTES);
        let mut found = 0;
        for offset in markers.offsets() {
            direct::read(&self.direct, block.get_mut(), offset)?;
            found += u32::from(markers.is_left(offset, block.get()));
        }
        Ok(found)
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
        let mut block = Buffer::zeros(BLOCK_BYTES);
        for offset in markers.offsets() {
            block.get_mut().copy_from_slice(&markers.block(offset));
            direct::write(&self.direct, block.get(), offset).map_err(self.failed("plant a marker"))?;
        }
        self.direct.sync_data().map_err(self.failed("plant a marker"))?;
        for offset in markers.offsets() {
            direct::read(&self.direct, block.get_mut(), offset).map_err(self.failed("read a marker back"))?;
            if block.get() != markers.block(offset) {
                return Err(unproved(&self.identity, "a marker reads otherwise than it was written"));
            }
        }
        Ok(markers.count())
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
        Ok(Sought {
            markers_found: self.markers_left(markers).map_err(failed())?,
            signatures_found: self.signatures().map_err(failed())?,
            read_back_bytes,
            blocks_not_zero,
        })
    }
}
