//! The real side of [`crate::Users`]: the shadow tools for account files, our own descriptors for everything in reach of
//! a tenant. Changes to accounts and homes are made under a lock of ours, because the tools' own locks do not make
//! "look, then create" one act.

mod account;
mod files;
mod home;
mod ipc;
mod keys;
mod lock;
mod mounts;
mod observe;
mod processes;
mod schedules;
mod trash;

use std::path::{Path, PathBuf};

use model::task::deprovision_user::Absent;
use model::task::provision_user::Verified;
use model::value::SshKey;

use super::command::Commands;
use crate::{Result, Tenant};

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
    fn refuse_foreign(&self, tenant: &Tenant) -> Result<()> {
        self.observe(tenant)?.refuse_foreign(tenant)
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
        self.refuse_foreign(tenant)?;
        self.remove_schedules(tenant)
    }

    fn ensure_no_processes(&self, tenant: &Tenant) -> Result<u32> {
        self.refuse_foreign(tenant)?;
        self.kill_processes(tenant.uid.get())
    }

    fn ensure_no_files(&self, tenant: &Tenant) -> Result<()> {
        self.refuse_foreign(tenant)?;
        self.remove_files(tenant.uid.get())
    }

    fn ensure_no_ipc(&self, tenant: &Tenant) -> Result<()> {
        self.refuse_foreign(tenant)?;
        self.remove_ipc(tenant.uid.get())
    }

    fn absent(&self, tenant: &Tenant) -> Result<Absent> {
        let uid = tenant.uid.get();
        let seen = self.observe(tenant)?;
        let (cron, at, linger) = self.find_schedules(tenant)?;
        Ok(Absent {
            user: seen.is_nothing(),
            home: self.home_is_absent(tenant)?,
            keys: self.keys_are_absent(tenant)?,
            cron: !cron,
            at: !at,
            linger: !linger,
            processes: self.find_processes(uid)?.is_empty(),
            files: self.find_files(uid)?.is_empty(),
            ipc: self.find_ipc(uid)?.is_empty(),
        })
    }

    fn leftovers(&self, tenant: &Tenant) -> Result<Vec<String>> {
        let uid = tenant.uid.get();
        let processes = self
            .find_processes(uid)?
            .into_iter()
            .map(|pid| format!("process {pid}"));
        let mut left: Vec<String> = processes
            .chain(self.find_files(uid)?)
            .chain(self.find_ipc(uid)?)
            .collect();
        left.truncate(20);
        Ok(left)
    }
}
