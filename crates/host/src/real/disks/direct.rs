//! Reading and writing a disk past the page cache: what is read is what the disk has, not what we remember having
//! written. The kernel wants memory at even addresses for that, hence the buffer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const ALIGNED_TO: usize = 4096;

/// Memory that begins at a multiple of 4 KiB.
pub(in crate::real) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    pub(in crate::real) fn zeros(length: usize) -> Self {
        let bytes = vec![0; length + ALIGNED_TO];
        let start = bytes.as_ptr().align_offset(ALIGNED_TO);
        // It may not be found only where addresses have no meaning.
        let start = start.min(ALIGNED_TO);
        Self { bytes, start, length }
    }

    pub(in crate::real) fn get(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    pub(in crate::real) fn get_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// The pieces of a disk, one buffer long each but for the last.
pub(in crate::real) fn pieces(size_bytes: u64, piece: usize) -> impl Iterator<Item = (u64, usize)> {
    let step = piece as u64;
    (0..size_bytes.div_ceil(step)).map(move |n| {
        let offset = n * step;
        let length = (size_bytes - offset).min(step);
        (offset, usize::try_from(length).unwrap_or(piece))
    })
}

pub(in crate::real) fn read(file: &File, into: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(into, offset)
}

pub(in crate::real) fn write(file: &File, from: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(from, offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_disk_once() {
        let all: Vec<_> = pieces(10_240, 4096).collect();
        assert_eq!(all, [(0, 4096), (4096, 4096), (8192, 2048)]);
        assert_eq!(pieces(0, 4096).count(), 0);
        let buffer = Buffer::zeros(8192);
        assert_eq!(
            (buffer.get().as_ptr() as usize % ALIGNED_TO, buffer.get().len()),
            (0, 8192)
        );
    }
}
