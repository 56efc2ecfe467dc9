//! Which stored files are known to hold their digest, so that the same bytes are not hashed for every slice: in memory
//! only, until the executor ends, and for a day at most, because disks forget. A file is known by its inode, size and
//! both its times of change, and only if those were old when its reading began and it had nothing left to write back:
//! then whoever writes to it later, through a call or through a mapping, moves a time that nobody can set. What differs
//! in anything is hashed anew, and so is whatever lies on a file system that is not known to keep these times (for a slice,
//! that is; whoever only reads ahead has no use for hashing the same file over and over). Not seen:
//! somebody who sets the machine's clock back to the nanosecond, or writes to the device below the file system. Both
//! have to be root, who could as well change this program; and a day ends it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{iter, thread};

use model::digest::{Hasher, Sha256};
use rustix::fs::fstatfs;

use super::pieces::Inside;

const CHUNK: usize = 1 << 20;
/// Chunks that are read and not yet hashed.
const AHEAD: usize = 2;
/// Far more than a clock's step: a second change in the same step would have the same time.
const SETTLED_S: i64 = 2;
const GOOD_FOR: Duration = Duration::from_secs(86_400);
/// More images than a node ever has.
const MANY: usize = 1024;
/// ext4, xfs and btrfs write down a change through a mapping when the page was clean before. tmpfs and what lies on
/// another machine do not.
const KEEP_TIMES: [u32; 3] = [0xef53, 0x5846_5342, 0x9123_683e];

#[derive(Default)]
pub(super) struct Known {
    files: Mutex<HashMap<Sha256, Record>>,
    /// Read and found good, but never to be relied on.
    seen: Mutex<HashMap<Sha256, (Stamp, Instant)>>,
}

struct Record {
    stamp: Stamp,
    since: Instant,
    inside: Option<Inside>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let seen = file.metadata()?;
        Ok(Self {
            device: seen.dev(),
            inode: seen.ino(),
            size: seen.size(),
            modified: (seen.mtime(), seen.mtime_nsec()),
            changed: (seen.ctime(), seen.ctime_nsec()),
        })
    }

    /// Old enough at the time of `fresh`, which was made on the same file system.
    fn settled(&self, fresh: &Self) -> bool {
        let newest = self.changed.0.max(self.modified.0);
        newest.saturating_add(SETTLED_S) < fresh.changed.0 && self.device == fresh.device
    }

    /// Of a time that was not yet, at the time of `fresh`: it will not be settled soon.
    pub(super) fn ahead_of(&self, fresh: &Self) -> bool {
        self.changed.0.max(self.modified.0) > fresh.changed.0
    }

    /// Were its bytes written so long before `fresh`?
    pub(super) fn older(&self, than_s: i64, fresh: &Self) -> bool {
        self.modified.0.saturating_add(than_s) < fresh.modified.0
    }
}

impl Known {
    pub(super) fn holds(&self, sha256: &Sha256, file: &File) -> io::Result<bool> {
        self.about(sha256, file, |_| ()).map(|known| known.is_some())
    }

    pub(super) fn inside(&self, sha256: &Sha256, file: &File) -> io::Result<Option<Inside>> {
        let inside = self.about(sha256, file, |record| record.inside.clone());
        inside.map(Option::flatten)
    }

    /// Remembered with the file, if that is.
    pub(super) fn learn(&self, sha256: &Sha256, file: &File, inside: Inside) -> io::Result<()> {
        self.about(sha256, file, |record| record.inside = Some(inside))
            .map(drop)
    }

    /// Was it read not long ago? Then it is known for at least half as long as anything is, or never.
    pub(super) fn was_read(&self, sha256: &Sha256, file: &File) -> io::Result<bool> {
        let young = |since: Instant| since.elapsed() < GOOD_FOR / 2;
        if self.about(sha256, file, |record| young(record.since))? == Some(true) {
            return Ok(true);
        }
        let stamp = Stamp::of(file)?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(seen
            .get(sha256)
            .is_some_and(|(before, since)| *before == stamp && young(*since)))
    }

    fn about<T>(&self, sha256: &Sha256, file: &File, ask: impl FnOnce(&mut Record) -> T) -> io::Result<Option<T>> {
        let stamp = Stamp::of(file)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let known = files.get_mut(sha256);
        let known = known.filter(|known| known.stamp == stamp && known.since.elapsed() < GOOD_FOR);
        Ok(known.map(ask))
    }

    /// The digest that this file is to have, or the one that it has. `fresh` is a file that was just made beside it: its
    /// times say how late it is there.
    pub(super) fn check(&self, sha256: &Sha256, file: &mut File, fresh: &File) -> io::Result<Sha256> {
        if self.holds(sha256, file)? {
            return Ok(*sha256);
        }
        self.read(sha256, file, fresh, &|| false)
    }

    /// The digest that it has, whatever is known of it. `over`: it is not wanted any more, and nothing was found out.
    pub(super) fn read(
        &self,
        sha256: &Sha256,
        file: &mut File,
        fresh: &File,
        over: &dyn Fn() -> bool,
    ) -> io::Result<Sha256> {
        let fresh = Stamp::of(fresh)?;
        // A page that somebody has mapped and changed takes further changes without a word until it is written back.
        file.sync_data()?;
        let stamp = Stamp::of(file)?;
        let found = digest(file, over)?;
        let keeps = fstatfs(&*file).is_ok_and(|seen| KEEP_TIMES.iter().any(|magic| i64::from(*magic) == seen.f_type));
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.remove(sha256);
        let before = files.remove(sha256).filter(|before| before.stamp == stamp);
        if found != *sha256 || Stamp::of(file)? != stamp {
            return Ok(found);
        }
        let since = Instant::now();
        if keeps && stamp.settled(&fresh) && files.len() < MANY {
            let inside = before.and_then(|before| before.inside);
            files.insert(found, Record { stamp, since, inside });
        } else if (!keeps || stamp.ahead_of(&fresh)) && seen.len() < MANY {
            seen.insert(found, (stamp, since));
        }
        Ok(found)
    }
}

/// One thread reads while the other hashes, a few chunks behind.
fn digest(file: &mut File, over: &dyn Fn() -> bool) -> io::Result<Sha256> {
    file.rewind()?;
    let (full, next) = mpsc::sync_channel(AHEAD);
    let (empty, used) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for mut chunk in iter::repeat_with(|| vec![0; CHUNK]).take(AHEAD + 2).chain(used) {
                let read = file.read(&mut chunk).map(|length| (length, chunk));
                let last = !matches!(read, Ok((1.., _)));
                if full.send(read).is_err() || last {
                    return;
                }
            }
        });
        let mut hasher = Hasher::default();
        for read in next {
            if over() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let (length, chunk) = read?;
            if length == 0 {
                return Ok(hasher.done());
            }
            hasher.add(&chunk[..length]);
            // It is not wanted any more once all is read.
            empty.send(chunk).ok();
        }
        Err(io::Error::other("its reader was lost"))
    })
}

#[cfg(test)]
mod tests {
    use super::Stamp;

    #[test]
    fn what_changed_just_now_or_after_now_is_not_settled() {
        let at = |modified: i64, changed: i64| Stamp {
            device: 1,
            inode: 1,
            size: 1,
            modified: (modified, 0),
            changed: (changed, 999_999_999),
        };
        let fresh = at(100, 100);
        assert!(at(97, 97).settled(&fresh));
        for (modified, changed) in [(98, 97), (97, 98), (100, 100), (97, 101), (i64::MAX, 97)] {
            assert!(!at(modified, changed).settled(&fresh), "{modified} {changed}");
        }
        assert!(!at(97, 97).settled(&Stamp { device: 2, ..fresh }), "another clock");
        assert!(at(97, 101).ahead_of(&fresh) && !at(100, 100).ahead_of(&fresh));
        assert!(at(69, 100).older(30, &fresh) && !at(70, 0).older(30, &fresh));
        assert!(!at(i64::MAX, 0).older(30, &fresh));
    }
}
