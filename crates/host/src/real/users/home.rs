//! Home directories. One is built where no tenant can reach and renamed into place, so it is whole or not there; it is
//! opened by descriptor, without following anything that a tenant may have put in the way.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Uid, fchmod, fchown, fstat, fsync, mkdirat, open,
    openat, openat2, renameat_with, statat,
};
use rustix::io::Errno;

use super::Users;
use super::deadline::Deadline;
use super::observe::home_path;
use super::trash::Trash;
use crate::error::Doing;
use crate::{Error, Result, Tenant};

pub(super) const OPEN_DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Below the descriptor, on the same mount, and through no link of any kind.
pub(super) const HERE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
const LIMIT: Duration = Duration::from_secs(140);
const SKEL_MAX_BYTES: u64 = 64 * 1024;

impl Users {
    pub(super) fn make_home(&self, tenant: &Tenant) -> Result<String> {
        let _lock = self.lock()?;
        self.observe(tenant)?.refuse_foreign(tenant)?;
        let path = home_path(tenant);
        if self.open_home(tenant)?.is_some() {
            return Ok(path);
        }
        let building = || format!("build {path}");
        let (homes, name) = (self.homes()?, tenant.name.as_str());
        let draft = format!(".gpuaas-{name}.new");
        let home = self.draft_dir(&homes, &draft)?;
        self.copy_skel(&home, tenant)?;
        mkdirat(&home, ".ssh", Mode::RWXU).doing(building)?;
        give(openat(&home, ".ssh", OPEN_DIR, Mode::empty()).doing(building)?, tenant).doing(building)?;
        give(&home, tenant).doing(building)?;
        fsync(&home).doing(building)?;
        match renameat_with(&homes, &draft, &homes, name, RenameFlags::NOREPLACE) {
            Ok(()) => fsync(&homes).doing(building)?,
            Err(Errno::EXIST) => {
                return Err(refused(
                    tenant,
                    "something that is not its own is where its home should be",
                ));
            }
            Err(error) => return Err(error).doing(building),
        }
        Ok(path)
    }

    /// Leaves a home alone that is somebody else's.
    pub(super) fn remove_home(&self, tenant: &Tenant) -> Result<()> {
        let lock = self.lock()?;
        if self.leaves_alone(tenant, &self.observe(tenant)?)? {
            return Ok(());
        }
        let (homes, name) = (self.homes()?, tenant.name.as_str());
        let mut trash = Trash::new(&homes, Deadline::within(LIMIT, "removing a home"));
        for draft in [format!(".gpuaas-{name}.new"), format!(".gpuaas-{name}.ssh")] {
            trash.take(&homes, &draft);
        }
        if stat(&homes, name)?.is_some_and(|stat| stat.st_uid == tenant.uid.get())
            && !trash.take_from(tenant.uid.get(), &homes, name)
        {
            return Err(Errno::BUSY).doing(|| format!("remove {}", home_path(tenant)));
        }
        // Out of everybody's way; how long the rest takes is up to the tenant, and nobody has to wait for it.
        drop(lock);
        if !trash.empty()? {
            return Err(Errno::NOTEMPTY).doing(|| format!("remove {}", home_path(tenant)));
        }
        fsync(&homes).doing(|| "write /home".to_owned())
    }

    pub(super) fn home_is_absent(&self, tenant: &Tenant) -> Result<bool> {
        Ok(stat(&self.homes()?, tenant.name.as_str())?.is_none())
    }

    /// The tenant's home, if it is there and theirs.
    pub(super) fn open_home(&self, tenant: &Tenant) -> Result<Option<OwnedFd>> {
        let homes = self.homes()?;
        let home = match openat2(
            &homes,
            tenant.name.as_str(),
            OPEN_DIR,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS,
        ) {
            Ok(home) => home,
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(error).doing(|| format!("open {}", home_path(tenant))),
        };
        let owner = fstat(&home).doing(|| format!("look at {}", home_path(tenant)))?.st_uid;
        Ok((owner == tenant.uid.get()).then_some(home))
    }

    /// The directory of homes; nobody but root may write there, or names in it would mean nothing.
    pub(super) fn homes(&self) -> Result<OwnedFd> {
        let path = self.path("home");
        let homes = open(
            &path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let homes = homes.doing(|| format!("open {}", path.display()))?;
        let stat = fstat(&homes).doing(|| format!("look at {}", path.display()))?;
        if stat.st_uid != 0 || stat.st_mode & 0o022 != 0 {
            return Err(Error::Unreadable {
                path: "/home".to_owned(),
                why: "others than root may write to it",
            });
        }
        Ok(homes)
    }

    /// An empty directory of root's beside the homes, for what is to be renamed into one.
    pub(super) fn draft_dir(&self, homes: &OwnedFd, name: &str) -> Result<OwnedFd> {
        let building = || format!("build /home/{name}");
        let mut trash = Trash::new(homes, Deadline::within(LIMIT, "removing a draft"));
        trash.take(homes, name);
        trash.empty()?;
        mkdirat(homes, name, Mode::RWXU).doing(building)?;
        openat(homes, name, OPEN_DIR, Mode::empty()).doing(building)
    }

    /// The plain files of /etc/skel, as every account of the host gets them.
    fn copy_skel(&self, home: &OwnedFd, tenant: &Tenant) -> Result<()> {
        let path = self.path("etc/skel");
        let Ok(entries) = std::fs::read_dir(&path) else {
            return Ok(());
        };
        for entry in entries {
            let entry = entry.doing(|| "list /etc/skel".to_owned())?;
            let meta = entry.metadata().doing(|| "look at /etc/skel".to_owned())?;
            if !meta.is_file() || meta.len() > SKEL_MAX_BYTES {
                continue;
            }
            let copying = || format!("copy {}", entry.path().display());
            let mut bytes = Vec::new();
            let source = File::open(entry.path()).doing(copying)?;
            source.take(SKEL_MAX_BYTES).read_to_end(&mut bytes).doing(copying)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mut copy = File::from(openat(home, entry.file_name(), flags, Mode::from(0o644)).doing(copying)?);
            copy.write_all(&bytes).doing(copying)?;
            copy.sync_all().doing(copying)?;
            give(&copy, tenant).doing(copying)?;
        }
        Ok(())
    }
}

/// Hands over something that we made ourselves and hold open. Never used on what was found.
pub(super) fn give(made: impl AsFd, tenant: &Tenant) -> rustix::io::Result<()> {
    let id = tenant.uid.get();
    fchown(made.as_fd(), Some(Uid::from_raw(id)), Some(Gid::from_raw(id)))?;
    if FileType::from_raw_mode(fstat(made.as_fd())?.st_mode) == FileType::Directory {
        fchmod(made.as_fd(), Mode::RWXU)?;
    }
    Ok(())
}

pub(super) fn refused(tenant: &Tenant, why: &str) -> Error {
    Error::UserRefused {
        name: tenant.name.to_string(),
        why: why.to_owned(),
    }
}

pub(super) fn stat(dir: &OwnedFd, name: &str) -> Result<Option<rustix::fs::Stat>> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error).doing(|| format!("look at {name}")),
    }
}
