//! Accounts of tenants on a whole machine, and their complete removal.

use model::id::AllocationId;
use model::task::deprovision_user::Absent;
use model::task::provision_user::Verified;
use model::time::Timestamp;
use model::value::{Name, SshKey, Uid};

use crate::{Error, Result};

/// Whose account it is. An account is ours only if name, uid and owner all fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    pub name: Name,
    pub uid: Uid,
    pub owner: AllocationId,
}

/// A tenant who has an account here, or had one whose absence is not proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resident {
    pub tenant: Tenant,
    /// Since when somebody can log in.
    pub since: Option<Timestamp>,
    /// Is the account there? One that nobody of us took away may be gone all the same.
    pub has_account: bool,
}

/// Every `ensure_no_x` leaves what belongs to somebody else alone, and so does it with everything of a uid that cannot
/// be shown to be this tenant's: by the mark in its account, or by a record that is durable before the account is made
/// and ends with [`Users::prove_absent`]. Those that go by name ([`Users::ensure_no_account`], `_home`, `_keys`) then
/// have nothing to do and succeed, because they also undo an `ensure_x` that was refused; those that go by uid only
/// look, and refuse if something is there.
pub trait Users: Send + Sync {
    /// Everybody whose absence is still to be proved.
    fn residents(&self) -> Result<Vec<Resident>>;

    /// Fails with `user_refused` or `uid_refused` if name or uid belong to somebody else; absent is no error.
    fn refuse_foreign(&self, tenant: &Tenant) -> Result<()>;

    /// An account that can log in by key only, in no group but its own and, with `gpu_access`, `video` and `render`.
    /// Refused for a uid that has left traces on the host.
    fn ensure_account(&self, tenant: &Tenant, gpu_access: bool) -> Result<()>;
    /// Locks it, ends its processes, removes it. Leaves its files.
    fn ensure_no_account(&self, tenant: &Tenant) -> Result<()>;

    /// A home directory of the tenant's own; gives its path.
    fn ensure_home(&self, tenant: &Tenant) -> Result<String>;
    fn ensure_no_home(&self, tenant: &Tenant) -> Result<()>;

    /// Exactly these keys may log in.
    fn ensure_keys(&self, tenant: &Tenant, keys: &[SshKey]) -> Result<()>;
    fn ensure_no_keys(&self, tenant: &Tenant) -> Result<()>;

    /// Looks at what the three verbs above have made.
    fn verified(&self, tenant: &Tenant, gpu_access: bool, keys: &[SshKey]) -> Result<Verified>;

    /// Nobody can log in or be scheduled any more. Without an account there is nothing to lock.
    fn ensure_locked(&self, tenant: &Tenant) -> Result<()>;
    /// No cron table, no at job, no lingering session manager.
    fn ensure_no_schedules(&self, tenant: &Tenant) -> Result<()>;
    /// Kills until nothing of the uid runs or is scheduled; gives how many were killed.
    fn ensure_no_processes(&self, tenant: &Tenant) -> Result<u32>;
    /// Removes everything of the uid on writable local mounts, the home directory too.
    fn ensure_no_files(&self, tenant: &Tenant) -> Result<()>;
    /// Removes SysV and POSIX message queues, semaphores and shared memory of the uid.
    fn ensure_no_ipc(&self, tenant: &Tenant) -> Result<()>;

    /// Looks for each kind of leftover. Removes nothing.
    fn absent(&self, tenant: &Tenant) -> Result<Absent>;

    /// `absence_not_proved` unless nothing is left. Then nothing need be remembered of the tenant either.
    fn prove_absent(&self, tenant: &Tenant) -> Result<Absent> {
        let absent = self.absent(tenant)?;
        match absent.left() {
            left if left.is_empty() => Ok(absent),
            left => Err(Error::AbsenceNotProved {
                left,
                seen: self.leftovers(tenant)?,
            }),
        }
    }

    /// Some of what is left, by name, for the person who has to look.
    fn leftovers(&self, tenant: &Tenant) -> Result<Vec<String>>;
}
