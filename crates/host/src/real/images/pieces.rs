//! Which pieces of a disk are read back after an image was written to it: all of a small one, else the same few, the first
//! and the last among them. Once they were read from the image, or a disk was compared with it, sums over those pieces
//! stand for the image: a disk with the same sums holds it. Sums that differ, or that cannot be taken, prove nothing;
//! whoever asks compares then.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

use crate::real::disks::direct::{self, Buffer};

/// So much of it, so often.
const PIECE: u64 = 8 << 20;
const PIECES: u64 = 8;
const BLOCK: u64 = 4096;

/// What was found in an image, and what its pieces sum up to on a disk that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inside {
    pub(super) size: u64,
    pub(super) sums: Vec<u32>,
}

/// Offset and length.
pub(super) fn pieces(size: u64) -> Vec<(u64, u64)> {
    if size <= PIECE * PIECES {
        return vec![(0, size)];
    }
    let step = (size - PIECE) / (PIECES - 1) / BLOCK * BLOCK;
    let mut all: Vec<(u64, u64)> = (0..PIECES - 1).map(|n| (n * step, PIECE)).collect();
    all.push((size - PIECE, PIECE));
    all
}

/// Of the disk itself, past the memory. None where that cannot be done, or if the disk fails.
pub(super) fn sums(disk: &File, size: u64) -> Option<Vec<u32>> {
    let past = i32::try_from(OFlags::DIRECT.bits()).ok()?;
    let own = format!("/proc/self/fd/{}", disk.as_raw_fd());
    let disk = File::options().read(true).custom_flags(past).open(own).ok()?;
    pieces(size).into_iter().map(|piece| sum(&disk, piece).ok()).collect()
}

pub(super) fn sum(file: &File, (offset, length): (u64, u64)) -> io::Result<u32> {
    if length == 0 {
        return Ok(0);
    }
    let mut buffer = Buffer::zeros(usize::try_from(PIECE.min(length)).unwrap_or_default());
    let mut sum = 0;
    for (at, length) in direct::pieces(length, buffer.get().len()) {
        let bytes = &mut buffer.get_mut()[..length];
        direct::read(file, bytes, offset + at)?;
        sum = crc32c::crc32c_append(sum, bytes);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, PIECE, PIECES, pieces};

    #[test]
    fn both_ends_are_looked_at_and_what_is_small_is_whole() {
        assert_eq!(pieces(512), [(0, 512)]);
        assert_eq!(pieces(PIECE * PIECES), [(0, PIECE * PIECES)]);
        for size in [PIECE * PIECES + BLOCK, 10 << 30, (10 << 30) + 3 * BLOCK] {
            let all = pieces(size);
            assert_eq!(all.len() as u64, PIECES);
            assert_eq!((all[0], all[all.len() - 1]), ((0, PIECE), (size - PIECE, PIECE)));
            assert!(all.iter().all(|(offset, _)| offset % BLOCK == 0), "{all:?}");
            assert!(all.is_sorted());
        }
    }
}
