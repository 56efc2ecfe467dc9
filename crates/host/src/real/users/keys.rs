//! `authorized_keys`, written as root into a directory that the tenant controls and may swap at any moment. So: only
//! what we made ourselves is handed over, names are resolved below an open descriptor and through no link, the file
//! is replaced as a whole, and what counts is what is found there afterwards.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use model::value::SshKey;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, fchmod, fstat, fsync, openat, openat2, renameat, renameat_with,
    unlinkat,
};
use rustix::io::Errno;

use super::Users;
use super::home::{HERE, OPEN_DIR, give, refused};
use crate::error::Doing;
use crate::{Result, Tenant};

const KEYS: &str = "authorized_keys";
const DRAFT: &str = ".authorized_keys.gpuaas";
/// How often we try again when the tenant has moved something between two calls.
const ROUNDS: usize = 8;

impl Users {
    pub(super) fn write_keys(&self, tenant: &Tenant, keys: &[SshKey]) -> Result<()> {
        let _lock = self.lock()?;
        self.is_shown_ours(tenant, &self.observe(tenant)?)?;
        self.note_opened(tenant)?;
        for _ in 0..ROUNDS {
            let home = self
                .open_home(tenant)?
                .ok_or_else(|| refused(tenant, "it has no home of its own"))?;
            match self
                .ssh_dir(&home, tenant)
                .and_then(|dir| replace(&dir, tenant, &text(keys)))
            {
                Ok(()) => {}
                Err(Errno::LOOP | Errno::NOTDIR | Errno::XDEV | Errno::ISDIR | Errno::PERM) => {
                    return Err(refused(tenant, "something else is where its keys should be"));
                }
                // It was there a moment ago, or was not.
                Err(Errno::NOENT | Errno::EXIST | Errno::AGAIN | Errno::STALE) => continue,
                Err(error) => return Err(error).doing(|| format!("write the keys of {}", tenant.name)),
            }
            if self.has_keys(tenant, keys)? {
                return Ok(());
            }
        }
        Err(refused(tenant, "its home changes while the keys are written"))
    }

    pub(super) fn remove_keys(&self, tenant: &Tenant) -> Result<()> {
        let _lock = self.lock()?;
        if self.leaves_alone(tenant, &self.observe(tenant)?)? {
            return Ok(());
        }
        let Some(home) = self.open_home(tenant)? else {
            return Ok(());
        };
        let removing = || format!("remove the keys of {}", tenant.name);
        let dir = match openat2(&home, ".ssh", OPEN_DIR, Mode::empty(), HERE) {
            Ok(dir) => dir,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(error) => return Err(error).doing(removing),
        };
        for name in [KEYS, "authorized_keys2", DRAFT] {
            match unlinkat(&dir, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error).doing(removing),
            }
        }
        fsync(&dir).doing(removing)
    }

    /// Would sshd, following links as it does, find a file of keys in this home?
    pub(super) fn keys_are_absent(&self, tenant: &Tenant) -> Result<bool> {
        let Some(home) = self.open_home(tenant)? else {
            return self.home_is_absent(tenant);
        };
        let found = |name: &str| rustix::fs::statat(&home, format!(".ssh/{name}"), AtFlags::empty());
        Ok([KEYS, "authorized_keys2"]
            .iter()
            .all(|name| matches!(found(name), Err(Errno::NOENT | Errno::NOTDIR))))
    }

    pub(super) fn has_keys(&self, tenant: &Tenant, keys: &[SshKey]) -> Result<bool> {
        let Some(home) = self.open_home(tenant)? else {
            return Ok(false);
        };
        // A tenant may put a fifo there: nothing that we open may make us wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = openat2(&home, format!(".ssh/{KEYS}"), flags, Mode::empty(), HERE) else {
            return Ok(false);
        };
        let reading = || format!("read the keys of {}", tenant.name);
        let stat = fstat(&file).doing(reading)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_uid != tenant.uid.get() {
            return Ok(false);
        }
        let wanted = text(keys);
        let mut found = Vec::new();
        File::from(file)
            .take(wanted.len() as u64 + 1)
            .read_to_end(&mut found)
            .doing(reading)?;
        Ok(found == wanted.as_bytes() && stat.st_mode & 0o022 == 0)
    }

    /// The tenant's `.ssh`. A missing one is made beside the homes, handed over there, and renamed into place: to
    /// create it here and then change its owner would be to change the owner of whatever has that name by then.
    fn ssh_dir(&self, home: &OwnedFd, tenant: &Tenant) -> rustix::io::Result<OwnedFd> {
        let open = || openat2(home, ".ssh", OPEN_DIR, Mode::empty(), HERE);
        let dir = match open() {
            Err(Errno::NOENT) => {
                let draft = format!(".gpuaas-{}.ssh", tenant.name);
                let homes = self.homes().map_err(|_| Errno::PERM)?;
                give(self.draft_dir(&homes, &draft).map_err(|_| Errno::AGAIN)?, tenant)?;
                renameat_with(&homes, &draft, home, ".ssh", RenameFlags::NOREPLACE)?;
                open()?
            }
            other => other?,
        };
        if fstat(&dir)?.st_uid != tenant.uid.get() {
            Err(Errno::PERM)
        } else {
            Ok(dir)
        }
    }
}

fn replace(dir: &OwnedFd, tenant: &Tenant, text: &str) -> rustix::io::Result<()> {
    match unlinkat(dir, DRAFT, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
    }
    // Exclusive: what we hold is new, so it is ours to hand over.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(dir, DRAFT, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(text.as_bytes())
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    give(&file, tenant)?;
    fsync(&file)?;
    renameat(dir, DRAFT, dir, KEYS)?;
    fsync(dir)
}

fn text(keys: &[SshKey]) -> String {
    keys.iter().map(|key| format!("{key}\n")).collect()
}
