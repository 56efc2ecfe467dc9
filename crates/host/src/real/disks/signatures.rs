//! What a partition table, a file system or the like writes at the beginning or the end of a disk. None of them is
//! left on a disk that was wiped; finding none proves nothing, which is why there are markers.

/// Offset from the beginning, and what stands there.
const AT_START: [(usize, &[u8]); 14] = [
    (510, &[0x55, 0xaa]),
    (512, b"EFI PART"),
    (4096, b"EFI PART"),
    (512, b"LABELONE"),
    (0, b"XFSB"),
    (1080, &[0x53, 0xef]),
    (65_600, b"_BHRfS_M"),
    (4086, b"SWAPSPACE2"),
    (0, b"LUKS\xba\xbe"),
    (0, b"QFI\xfb"),
    (0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    (4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    (0, b"hsqs"),
    (32_769, b"CD001"),
];
/// Offset from the end.
const AT_END: [(usize, &[u8]); 3] = [
    (512, b"EFI PART"),
    (4096, b"EFI PART"),
    (8192, &[0xfc, 0x4e, 0x2b, 0xa9]),
];

/// Enough of either end for all of them.
pub(super) const START_BYTES: usize = 128 << 10;
pub(super) const END_BYTES: usize = 128 << 10;

pub(super) fn count(start: &[u8], end: &[u8]) -> u32 {
    let is_there = |at: usize, what: &[u8], within: &[u8]| within.get(at..at + what.len()) == Some(what);
    let first = AT_START.iter().filter(|(at, what)| is_there(*at, what, start)).count();
    let from_end = |back: usize| end.len().checked_sub(back);
    let last = AT_END
        .iter()
        .filter(|(back, what)| from_end(*back).is_some_and(|at| is_there(at, what, end)));
    u32::try_from(first + last.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_where_it_belongs_and_nowhere_else() {
        let (mut start, mut end) = (vec![0; START_BYTES], vec![0; END_BYTES]);
        assert_eq!(count(&start, &end), 0);
        start[510..512].copy_from_slice(&[0x55, 0xaa]);
        start[1080..1082].copy_from_slice(&[0x53, 0xef]);
        let at = END_BYTES - 512;
        end[at..at + 8].copy_from_slice(b"EFI PART");
        assert_eq!(count(&start, &end), 3);
        start[600..608].copy_from_slice(b"EFI PART");
        assert_eq!(count(&start, &end), 3);
        assert_eq!(count(&[], &[]), 0);
    }
}
