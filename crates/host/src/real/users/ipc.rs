//! SysV shared memory, semaphores and message queues, and POSIX message queues; POSIX shared memory and semaphores are
//! files in /dev/shm and go with the files.

use std::ffi::CString;
use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::Users;
use super::home::OPEN_DIR;
use super::trash::is_dots;
use crate::error::Doing;
use crate::real::command::Program;
use crate::{Error, Result};

const LIMIT: Duration = Duration::from_secs(30);
/// The table in /proc/sysvipc, its id column, and how ipcrm calls it.
const TABLES: [(&str, &str, &str); 3] = [("shm", "shmid", "-m"), ("sem", "semid", "-s"), ("msg", "msqid", "-q")];

impl Users {
    pub(super) fn remove_ipc(&self, uid: u32) -> Result<()> {
        for (table, column, option) in TABLES {
            for id in self.sysv(table, column, uid)? {
                let ended = self.commands.run(Program::Ipcrm, &[option, &id], None, LIMIT)?;
                // It may have gone between the look and the removal.
                if self.sysv(table, column, uid)?.contains(&id) {
                    ended.ok()?;
                }
            }
        }
        let queues = self.message_queues()?;
        for name in owned_queues(queues.as_ref(), uid)? {
            let Some(dir) = &queues else { continue };
            match unlinkat(dir, name.as_c_str(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error).doing(|| format!("remove message queue {name:?}")),
            }
        }
        Ok(())
    }

    pub(super) fn find_ipc(&self, uid: u32) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for (table, column, _) in TABLES {
            found.extend(
                self.sysv(table, column, uid)?
                    .into_iter()
                    .map(|id| format!("{table} {id}")),
            );
        }
        let queues = owned_queues(self.message_queues()?.as_ref(), uid)?;
        found.extend(
            queues
                .into_iter()
                .map(|name| format!("mqueue {}", name.to_string_lossy())),
        );
        Ok(found)
    }

    /// The ids that the uid owns or created.
    fn sysv(&self, table: &str, id: &str, uid: u32) -> Result<Vec<String>> {
        let path = self.path(format!("proc/sysvipc/{table}"));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            // A kernel without SysV IPC.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => {
                return Err(Error::Io {
                    doing: format!("read {}", path.display()),
                    source,
                });
            }
        };
        let unreadable = || Error::Unreadable {
            path: path.display().to_string(),
            why: "a column is missing",
        };
        let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let head = lines.next().ok_or_else(unreadable)?;
        let column = |name: &str| head.iter().position(|title| *title == name).ok_or_else(unreadable);
        let (id, owner, creator) = (column(id)?, column("uid")?, column("cuid")?);
        let mut found = Vec::new();
        for line in lines {
            let value = |column: usize| line.get(column).copied().ok_or_else(unreadable);
            if [value(owner)?, value(creator)?]
                .iter()
                .any(|text| text.parse() == Ok(uid))
            {
                found.push(value(id)?.to_owned());
            }
        }
        Ok(found)
    }

    /// The kernel's message queues as a directory. Mounted for ourselves only: /dev/mqueue need not be there.
    fn message_queues(&self) -> Result<Option<OwnedFd>> {
        let opening = || "open the message queues".to_owned();
        match mount_queues() {
            Ok(dir) => Ok(Some(dir)),
            Err(Errno::NODEV) => Ok(None),
            // Without the right to mount, the host's own mount has to do; without that we cannot tell, and say so.
            Err(_) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                rustix::fs::open(self.path("dev/mqueue"), flags, Mode::empty())
                    .map(Some)
                    .doing(opening)
            }
        }
    }
}

fn mount_queues() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("mqueue", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mounted = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    // That one only stands for the place; this one can be listed.
    openat(&mounted, ".", OPEN_DIR, Mode::empty())
}

fn owned_queues(dir: Option<&OwnedFd>, uid: u32) -> Result<Vec<CString>> {
    let Some(dir) = dir else { return Ok(Vec::new()) };
    let listing = || "list the message queues".to_owned();
    let mut found = Vec::new();
    for entry in Dir::read_from(dir).doing(listing)? {
        let entry = entry.doing(listing)?;
        let name = entry.file_name();
        if !is_dots(name) && statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| stat.st_uid == uid) {
            found.push(name.to_owned());
        }
    }
    Ok(found)
}
