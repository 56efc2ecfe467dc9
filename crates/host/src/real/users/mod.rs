//! The real side of [`crate::Users`]: the shadow tools for account files, our own descriptors for everything in reach of
//! a tenant. Changes to accounts and homes are made under a lock of ours, because the tools' own locks do not make
//! "look, then create" one act. Not covered: the kernel's keyrings of a uid. They can be entered only as that uid, the
//! kernel drops them some time after its last process, and whoever gets the uid next within that time would find them;
//! so a uid is not to be given again soon.

mod account;
mod deadline;
mod files;
mod home;
mod ipc;
mod keys;
mod lock;
mod mounts;
mod observe;
mod processes;
mod record;
mod schedules;
mod sweep;
mod trash;

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::task::deprovision_user::Absent;
use model::task::provision_user::Verified;
use model::value::SshKey;

use super::command::Commands;
use crate::{Error, Resident, Result, Tenant};
use deadline::Deadline;

/// Together with the rest of a removal they have to fit into the time that its task may take.
const KILL_LIMIT: Duration = Duration::from_secs(30);
const LOOK_LIMIT: Duration = Duration::from_secs(110);
const MAX_NAMED: usize = 20;

pub struct Users {
    root: PathBuf,
    commands: Commands,
}

impl Users {
    pub fn under(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            commands: Commands::under(root.to_owned()),
        }
    }

    /// A path of the host, given without its leading slash.
    fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }
}

impl crate::Users for Users {
    fn residents(&self) -> Result<Vec<Resident>> {
        self.all_residents()
    }

    fn refuse_foreign(&self, tenant: &Tenant) -> Result<()> {
        self.is_shown_ours(tenant, &self.observe(tenant)?).map(drop)
    }

    fn ensure_account(&self, tenant: &Tenant, gpu_access: bool) -> Result<()> {
        self.make_account(tenant, gpu_access)
    }

    fn ensure_no_account(&self, tenant: &Tenant) -> Result<()> {
        self.remove_account(tenant)
    }

    fn ensure_home(&self, tenant: &Tenant) -> Result<String> {
        self.make_home(tenant)
    }

    fn ensure_no_home(&self, tenant: &Tenant) -> Result<()> {
        self.remove_home(tenant)
    }

    fn ensure_keys(&self, tenant: &Tenant, keys: &[SshKey]) -> Result<()> {
        self.write_keys(tenant, keys)
    }

    fn ensure_no_keys(&self, tenant: &Tenant) -> Result<()> {
        self.remove_keys(tenant)
    }

    fn verified(&self, tenant: &Tenant, gpu_access: bool, keys: &[SshKey]) -> Result<Verified> {
        Ok(Verified {
            user: self.observe(tenant)?.is_whole(tenant, gpu_access),
            home: self.open_home(tenant)?.is_some(),
            keys: self.has_keys(tenant, keys)?,
        })
    }

    fn ensure_locked(&self, tenant: &Tenant) -> Result<()> {
        self.lock_account(tenant)
    }

    fn ensure_no_schedules(&self, tenant: &Tenant) -> Result<()> {
        match self.may_touch(tenant)? {
            true => self.remove_schedules(tenant),
            false => nobodys(tenant, self.list_schedules(tenant)?),
        }
    }

    fn ensure_no_processes(&self, tenant: &Tenant) -> Result<u32> {
        match self.may_touch(tenant)? {
            true => self.silence(tenant),
            false => {
                let found = self.find_processes(tenant.uid.get())?;
                nobodys(tenant, found.iter().map(|pid| format!("process {pid}"))).map(|()| 0)
            }
        }
    }

    fn ensure_no_files(&self, tenant: &Tenant) -> Result<()> {
        match self.may_touch(tenant)? {
            true => self.remove_files(tenant.uid.get()),
            false => nobodys(tenant, self.find_files(tenant.uid.get(), look_deadline())?),
        }
    }

    fn ensure_no_ipc(&self, tenant: &Tenant) -> Result<()> {
        match self.may_touch(tenant)? {
            true => self.remove_ipc(tenant.uid.get()),
            false => nobodys(tenant, self.find_ipc(tenant.uid.get())?),
        }
    }

    fn absent(&self, tenant: &Tenant) -> Result<Absent> {
        Ok(self.look(tenant)?.0)
    }

    /// One look for both the verdict and the names. What is proved to be gone need not be remembered.
    fn prove_absent(&self, tenant: &Tenant) -> Result<Absent> {
        let (absent, seen) = self.look(tenant)?;
        match absent.left() {
            left if left.is_empty() => self.forget(tenant).map(|()| absent),
            left => Err(Error::AbsenceNotProved { left, seen }),
        }
    }

    fn leftovers(&self, tenant: &Tenant) -> Result<Vec<String>> {
        Ok(self.look(tenant)?.1)
    }
}

impl Users {
    fn may_touch(&self, tenant: &Tenant) -> Result<bool> {
        self.is_shown_ours(tenant, &self.observe(tenant)?)
    }

    /// A process may schedule its successor while it is being killed, so both are removed until neither is met again.
    fn silence(&self, tenant: &Tenant) -> Result<u32> {
        let deadline = Deadline::within(KILL_LIMIT, "killing processes");
        let uid = tenant.uid.get();
        let mut killed = 0u32;
        loop {
            killed = killed.saturating_add(self.kill_processes(uid, deadline)?);
            self.remove_schedules(tenant)?;
            if self.find_processes(uid)?.is_empty() {
                return Ok(killed);
            }
            deadline.check()?;
        }
    }

    /// Looks for each kind of leftover, and names some.
    fn look(&self, tenant: &Tenant) -> Result<(Absent, Vec<String>)> {
        let deadline = look_deadline();
        let uid = tenant.uid.get();
        let seen = self.observe(tenant)?;
        let (cron, at, linger) = self.find_schedules(tenant)?;
        let (processes, ipc) = (self.find_processes(uid)?, self.find_ipc(uid)?);
        let files = self.find_files(uid, deadline)?;
        let absent = Absent {
            user: seen.is_nothing(),
            home: self.home_is_absent(tenant)?,
            keys: self.keys_are_absent(tenant)?,
            cron: !cron,
            at: !at,
            linger: !linger,
            processes: processes.is_empty(),
            files: files.is_empty(),
            ipc: ipc.is_empty(),
        };
        let processes = processes.into_iter().map(|pid| format!("process {pid}"));
        let mut left: Vec<String> = processes.chain(files).chain(ipc).collect();
        left.truncate(MAX_NAMED);
        left.extend(self.unseen_mounts()?);
        Ok((absent, left))
    }
}

fn look_deadline() -> Deadline {
    Deadline::within(LOOK_LIMIT, "looking for leftovers")
}

/// Nothing shows that the uid was ours: then there must be nothing, and if there is, it is not ours to remove.
fn nobodys(tenant: &Tenant, found: impl IntoIterator<Item = String>) -> Result<()> {
    let uid = tenant.uid.get();
    match found.into_iter().next() {
        Some(holder) => Err(Error::UidRefused { uid, holder }),
        None => Ok(()),
    }
}
