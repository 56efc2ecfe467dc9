//! One control group per operation, below the one that we run in: a place that no child can leave, and that the kernel
//! kills as a whole. Where several threads work for one operation, each has a group of its own below that. A child is put there right after its start; until then it is killed by its process group alone.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::OpId;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::error::Doing;
use crate::operations::{Entered, Place};
use crate::{Error, Result};

/// What is killed is gone at once, unless the kernel itself holds it.
const DIES_WITHIN: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(5);

thread_local! {
    static CURRENT: RefCell<Option<Group>> = const { RefCell::new(None) };
}

/// Open files, because a thread in a cage could not open them any more.
#[derive(Clone)]
pub(super) struct Group(Arc<Files>);

struct Files {
    dir: PathBuf,
    procs: File,
    kill: File,
}

impl Group {
    /// That of the operation which has this thread.
    pub(super) fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// For a thread that works for the one which it was taken from.
    pub(super) fn take_thread(group: Option<Self>) {
        CURRENT.set(group);
    }

    fn make(dir: PathBuf) -> io::Result<Self> {
        match fs::create_dir(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let open = |name: &str| File::options().write(true).open(dir.join(name));
        let (procs, kill) = (open("cgroup.procs")?, open("cgroup.kill")?);
        Ok(Self(Arc::new(Files { dir, procs, kill })))
    }

    #[cfg(test)]
    pub(super) fn dir(&self) -> &Path {
        &self.0.dir
    }

    pub(super) fn add(&self, pid: u32) -> io::Result<()> {
        match (&self.0.procs).write_all(pid.to_string().as_bytes()) {
            // It was quick, and has ended.
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(()),
            done => done,
        }
    }

    pub(super) fn kill(&self) -> io::Result<()> {
        (&self.0.kill).write_all(b"1")
    }

    fn is_empty(&self) -> io::Result<bool> {
        let events = fs::read_to_string(self.0.dir.join("cgroup.events"))?;
        Ok(events.lines().any(|line| line == "populated 0"))
    }

    /// False if something does not die.
    fn clear(&self) -> io::Result<bool> {
        let until = Instant::now() + DIES_WITHIN;
        while !self.is_empty()? {
            if Instant::now() > until {
                return Ok(false);
            }
            self.kill()?;
            std::thread::park_timeout(GLANCE);
        }
        Ok(true)
    }

    /// With the places that are left in it, all of them empty.
    fn remove(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.0.dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir(entry.path())?;
            }
        }
        fs::remove_dir(&self.0.dir)
    }
}

/// The thread is given back, and the group is gone.
struct Guard(Group);

impl Drop for Guard {
    fn drop(&mut self) {
        Group::take_thread(None);
        // What cannot be removed now is killed when the operation is entered again.
        if self.0.clear().is_ok_and(|cleared| cleared) {
            self.0.remove().ok();
        }
    }
}

pub struct Operations {
    /// Where this process is, or why that is no use.
    own: std::result::Result<PathBuf, String>,
}

impl Operations {
    pub fn of_this_process() -> Self {
        let may_write = |own: PathBuf| match access(&own, Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => Ok(own),
            Err(error) => Err(format!("{}: {error}", own.display())),
        };
        Self {
            own: own_group().and_then(may_write),
        }
    }
}

impl crate::Operations for Operations {
    fn hindrance(&self) -> Option<String> {
        self.own.as_ref().err().cloned()
    }

    fn enter(&self, op: OpId) -> Result<Entered> {
        let Ok(own) = &self.own else {
            return Ok(Entered::nowhere());
        };
        let dir = own.join(format!("op-{}", op.uuid()));
        let doing = || format!("keep operation {op} in {}", dir.display());
        let group = Group::make(dir.clone()).doing(doing)?;
        if !group.clear().doing(doing)? {
            return Err(Error::ProgramTimeout {
                program: "what an earlier life started",
                limit_ms: DIES_WITHIN.as_millis(),
            });
        }
        Ok(entered(group))
    }

    fn place(&self, number: usize) -> Result<Place> {
        let Some(group) = Group::current() else {
            return Ok(Place::nowhere());
        };
        let dir = group.0.dir.join(format!("place-{number}"));
        let place = Group::make(dir.clone()).doing(|| format!("make a place at {}", dir.display()))?;
        Ok(Place::entered_by(move || entered(place)))
    }
}

fn entered(group: Group) -> Entered {
    Group::take_thread(Some(group.clone()));
    Entered::keeping(Guard(group))
}

/// Where the second version of the kernel's control groups is mounted, and our place there.
fn own_group() -> std::result::Result<PathBuf, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let (mounts, groups) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
    let top = mounts.lines().find_map(mounted).ok_or("cgroup2 is not mounted")?;
    let below = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    Ok(top.join(below.ok_or("this process is in no cgroup2")?))
}

/// `41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw`
fn mounted(line: &str) -> Option<&Path> {
    let (place, kind) = line.split_once(" - ")?;
    kind.starts_with("cgroup2 ").then_some(())?;
    place.split(' ').nth(4).map(Path::new)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::mounted;

    #[test]
    fn the_second_version_is_found_beside_the_first() {
        let first = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu";
        let second = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw";
        assert_eq!(mounted(first), None);
        assert_eq!(mounted(second), Some(Path::new("/sys/fs/cgroup/unified")));
    }
}
