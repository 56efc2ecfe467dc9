//! The markers that a wipe must make disappear: 1,024 blocks of 4 KiB at places that follow from a nonce, besides the
//! first and the last block. Each sector of each says which nonce and place it is, so that a rest of one is recognised
//! wherever a wipe stopped. Pure: reading and writing is the disk's.

use std::collections::BTreeSet;

use model::digest::Sha256;
use model::value::Nonce;

pub const BLOCK_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;
const SCATTERED: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Markers {
    nonce: Nonce,
    /// Numbers of blocks, sorted.
    blocks: BTreeSet<u64>,
}

impl Markers {
    /// None for a disk that is smaller than a block. A small one has a marker in every block.
    pub fn new(nonce: Nonce, size_bytes: u64) -> Option<Self> {
        let count = size_bytes / BLOCK_BYTES as u64;
        let last = count.checked_sub(1)?;
        let mut blocks = BTreeSet::from([0, last]);
        let wanted = usize::try_from(count).unwrap_or(usize::MAX).min(SCATTERED + 2);
        let mut turn = 0u64;
        while blocks.len() < wanted {
            let seed = [nonce.as_bytes().as_slice(), b"place", &turn.to_be_bytes()].concat();
            for eight in Sha256::of(&seed).as_bytes().chunks_exact(8) {
                let number = u64::from_be_bytes(eight.try_into().expect("chunks of eight"));
                if blocks.len() < wanted {
                    blocks.insert(number % count);
                }
            }
            turn += 1;
        }
        Some(Self { nonce, blocks })
    }

    pub fn nonce(&self) -> Nonce {
        self.nonce
    }

    pub fn count(&self) -> u32 {
        u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)
    }

    /// Where they are, in bytes, ascending.
    pub fn offsets(&self) -> impl Iterator<Item = u64> {
        self.blocks.iter().map(|block| block * BLOCK_BYTES as u64)
    }

    /// What stands at this offset.
    pub fn block(&self, offset: u64) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        for (n, sector) in block.chunks_exact_mut(SECTOR_BYTES).enumerate() {
            let at = offset + (n * SECTOR_BYTES) as u64;
            let seed = [self.nonce.as_bytes().as_slice(), b"sector", &at.to_be_bytes()].concat();
            let line = *Sha256::of(&seed).as_bytes();
            for part in sector.chunks_exact_mut(line.len()) {
                part.copy_from_slice(&line);
            }
        }
        block
    }

    /// Is any sector of the marker still there?
    pub fn is_left(&self, offset: u64, read: &[u8]) -> bool {
        let planted = self.block(offset);
        let mut sectors = planted.chunks_exact(SECTOR_BYTES).zip(read.chunks_exact(SECTOR_BYTES));
        sectors.any(|(planted, read)| planted == read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(byte: u8) -> Nonce {
        Nonce::from_bytes([byte; 32])
    }

    #[test]
    fn places_follow_from_the_nonce_and_include_both_ends() {
        let size = 1 << 30;
        let markers = Markers::new(nonce(1), size).expect("room");
        assert_eq!(markers.count(), 1026);
        assert_eq!(markers.offsets().next(), Some(0));
        assert_eq!(markers.offsets().last(), Some(size - BLOCK_BYTES as u64));
        assert_eq!(Markers::new(nonce(1), size).as_ref(), Some(&markers));
        assert_ne!(Markers::new(nonce(2), size), Some(markers));
    }

    #[test]
    fn a_small_disk_is_full_of_them() {
        for (size, count) in [(4096, 1), (8191, 1), (8192, 2), (40960, 10)] {
            assert_eq!(Markers::new(nonce(1), size).expect("room").count(), count, "{size}");
        }
        assert_eq!(Markers::new(nonce(1), 4095), None);
    }

    #[test]
    fn one_sector_that_is_left_is_found() {
        let markers = Markers::new(nonce(1), 1 << 20).expect("room");
        let offset = markers.offsets().nth(5).expect("many");
        let block = markers.block(offset);
        assert!(markers.is_left(offset, &block));
        let mut rest = [0; BLOCK_BYTES];
        assert!(!markers.is_left(offset, &rest));
        rest[3584..].copy_from_slice(&block[3584..]);
        assert!(markers.is_left(offset, &rest));
        assert_ne!(block, markers.block(0), "each place has its own");
    }
}
