//! Other numbers for a device: QEMU's stand-in has its own, and while the machine stands still its configuration space is
//! a piece of QEMU's memory like any other.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Vendor and device as they lie in memory: 1b36:0005 becomes 10de:2330, a 3D controller.
const STAND_IN: [u8; 4] = [0x36, 0x1b, 0x05, 0x00];
const GPU: [u8; 4] = [0xde, 0x10, 0x30, 0x23];
const CONTROLLER_3D: [u8; 2] = [0x02, 0x03];
const CLASS: usize = 10;
const HEADER: usize = 64;
/// The machine's own memory is larger, and none of this is there.
const LARGEST: u64 = 256 << 20;

/// How many there were.
pub(super) fn become_gpus(qemu: u32) -> usize {
    let memory = File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/{qemu}/mem"))
        .expect("ours to trace");
    let maps = fs::read_to_string(format!("/proc/{qemu}/maps")).expect("readable");
    let mut found = 0;
    for (from, to) in maps
        .lines()
        .filter_map(private)
        .filter(|(from, to)| to - from <= LARGEST)
    {
        let mut bytes = vec![0; usize::try_from(to - from).expect("it fits")];
        if memory.read_exact_at(&mut bytes, from).is_err() {
            continue; // a guard page
        }
        for at in (0..bytes.len().saturating_sub(HEADER)).step_by(16) {
            if is_stand_in(&bytes[at..at + HEADER]) {
                let at = from + at as u64;
                memory.write_all_at(&GPU, at).expect("written");
                memory.write_all_at(&CONTROLLER_3D, at + CLASS as u64).expect("written");
                found += 1;
            }
        }
    }
    found
}

/// An ordinary header with a class and a subsystem, and not just the same four bytes.
fn is_stand_in(header: &[u8]) -> bool {
    header[..4] == STAND_IN && header[14] & 0x7f == 0 && header[CLASS..CLASS + 2] != [0, 0] && header[44..48] != [0; 4]
}

/// `7f00-7f10 rw-p 00000000 00:00 0`: writable memory that is nobody's file.
fn private(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    if words.next()? != "rw-p" || words.nth(2)? != "0" {
        return None;
    }
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some((hex(from)?, hex(to)?))
}
