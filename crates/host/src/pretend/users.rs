//! The pretend side of [`Users`]. Refuses what the real one refuses.

use model::task::deprovision_user::Absent;
use model::task::provision_user::Verified;
use model::value::SshKey;

use super::state::{Account, Leftover, State};
use super::{Pretend, Profile};
use crate::{Error, Resident, Result, Tenant, Users};

impl Users for Pretend {
    /// It keeps no times.
    fn residents(&self) -> Result<Vec<Resident>> {
        self.call("residents", |_, state| {
            let records = state.records.iter().filter_map(|(uid, (name, owner))| {
                let tenant = Tenant {
                    name: name.parse().ok()?,
                    uid: (*uid).try_into().ok()?,
                    owner: *owner,
                };
                let account = state.accounts.get(name);
                Some(Resident {
                    tenant,
                    since: None,
                    has_account: account.is_some_and(|account| account.uid == *uid),
                })
            });
            Ok(records.collect())
        })
    }

    fn refuse_foreign(&self, tenant: &Tenant) -> Result<()> {
        self.call("refuse_foreign", |_, state| is_shown_ours(state, tenant).map(drop))
    }

    fn ensure_account(&self, tenant: &Tenant, gpu_access: bool) -> Result<()> {
        self.act("ensure_account", tenant, |_, state| {
            claim(state, tenant)?;
            let account = account(tenant, gpu_access);
            state.accounts.insert(tenant.name.to_string(), account);
            Ok(())
        })
    }

    fn ensure_no_account(&self, tenant: &Tenant) -> Result<()> {
        self.act("ensure_no_account", tenant, |_, state| {
            if is_shown_ours(state, tenant).is_ok_and(|ours| ours) {
                state.remove(tenant.uid.get(), Leftover::Process);
                state.accounts.remove(tenant.name.as_str());
                forget_if_absent(state, tenant);
            }
            Ok(())
        })
    }

    fn ensure_home(&self, tenant: &Tenant) -> Result<String> {
        self.act("ensure_home", tenant, |_, state| {
            match state.homes.get(tenant.name.as_str()) {
                Some(owner) if *owner != tenant.uid.get() => {
                    let why = format!("its home belongs to uid {owner}");
                    return Err(Error::UserRefused {
                        name: tenant.name.to_string(),
                        why,
                    });
                }
                Some(_) | None => state.homes.insert(tenant.name.to_string(), tenant.uid.get()),
            };
            Ok(format!("/home/{}", tenant.name))
        })
    }

    fn ensure_no_home(&self, tenant: &Tenant) -> Result<()> {
        self.act("ensure_no_home", tenant, |_, state| {
            if state.homes.get(tenant.name.as_str()) == Some(&tenant.uid.get()) {
                state.homes.remove(tenant.name.as_str());
                state.keys.remove(tenant.name.as_str());
            }
            Ok(())
        })
    }

    fn ensure_keys(&self, tenant: &Tenant, keys: &[SshKey]) -> Result<()> {
        self.act("ensure_keys", tenant, |_, state| {
            if state.homes.get(tenant.name.as_str()) != Some(&tenant.uid.get()) {
                let why = "it has no home of its own".to_owned();
                return Err(Error::UserRefused {
                    name: tenant.name.to_string(),
                    why,
                });
            }
            state.keys.insert(tenant.name.to_string(), lines(keys));
            Ok(())
        })
    }

    fn ensure_no_keys(&self, tenant: &Tenant) -> Result<()> {
        self.act("ensure_no_keys", tenant, |_, state| {
            if state.homes.get(tenant.name.as_str()) == Some(&tenant.uid.get()) {
                state.keys.remove(tenant.name.as_str());
            }
            Ok(())
        })
    }

    fn verified(&self, tenant: &Tenant, gpu_access: bool, keys: &[SshKey]) -> Result<Verified> {
        self.call("verified", |_, state| {
            let name = tenant.name.as_str();
            Ok(Verified {
                user: state.accounts.get(name) == Some(&account(tenant, gpu_access)),
                home: state.homes.get(name) == Some(&tenant.uid.get()),
                keys: state.keys.get(name) == Some(&lines(keys)),
            })
        })
    }

    fn ensure_locked(&self, tenant: &Tenant) -> Result<()> {
        self.act("ensure_locked", tenant, |_, state| {
            refuse_foreign(state, tenant)?;
            if let Some(account) = state.accounts.get_mut(tenant.name.as_str()) {
                account.locked = true;
            }
            Ok(())
        })
    }

    fn ensure_no_schedules(&self, tenant: &Tenant) -> Result<()> {
        self.act("ensure_no_schedules", tenant, |_, state| {
            const KINDS: [Leftover; 3] = [Leftover::Cron, Leftover::At, Leftover::Linger];
            may_touch(state, tenant, &KINDS)?;
            for kind in KINDS {
                state.remove(tenant.uid.get(), kind);
            }
            Ok(())
        })
    }

    fn ensure_no_processes(&self, tenant: &Tenant) -> Result<u32> {
        self.act("ensure_no_processes", tenant, |_, state| {
            may_touch(state, tenant, &[Leftover::Process])?;
            Ok(u32::from(state.remove(tenant.uid.get(), Leftover::Process)))
        })
    }

    fn ensure_no_files(&self, tenant: &Tenant) -> Result<()> {
        self.act("ensure_no_files", tenant, |_, state| {
            may_touch(state, tenant, &[Leftover::File])?;
            state.remove(tenant.uid.get(), Leftover::File);
            if state.homes.get(tenant.name.as_str()) == Some(&tenant.uid.get()) {
                state.homes.remove(tenant.name.as_str());
                state.keys.remove(tenant.name.as_str());
            }
            Ok(())
        })
    }

    fn ensure_no_ipc(&self, tenant: &Tenant) -> Result<()> {
        self.act("ensure_no_ipc", tenant, |_, state| {
            may_touch(state, tenant, &[Leftover::Ipc])?;
            state.remove(tenant.uid.get(), Leftover::Ipc);
            Ok(())
        })
    }

    fn absent(&self, tenant: &Tenant) -> Result<Absent> {
        self.call("absent", |_: &Profile, state| Ok(absent(state, tenant)))
    }

    fn prove_absent(&self, tenant: &Tenant) -> Result<Absent> {
        let absent = self.act("prove_absent", tenant, |_, state| {
            forget_if_absent(state, tenant);
            Ok(absent(state, tenant))
        })?;
        match absent.left() {
            left if left.is_empty() => Ok(absent),
            left => Err(Error::AbsenceNotProved {
                left,
                seen: self.leftovers(tenant)?,
            }),
        }
    }

    fn leftovers(&self, tenant: &Tenant) -> Result<Vec<String>> {
        let state = self.snapshot();
        let kinds = state.leftovers.get(&tenant.uid.get()).into_iter().flatten();
        Ok(kinds.map(|kind| format!("{kind:?}").to_lowercase()).collect())
    }
}

fn account(tenant: &Tenant, gpu_access: bool) -> Account {
    Account {
        uid: tenant.uid.get(),
        owner: Some(tenant.owner),
        gpu_access,
        locked: false,
    }
}

fn lines(keys: &[SshKey]) -> Vec<String> {
    keys.iter().map(SshKey::to_string).collect()
}

fn refuse_foreign(state: &State, tenant: &Tenant) -> Result<()> {
    let (name, uid) = (tenant.name.as_str(), tenant.uid.get());
    if let Some(account) = state.accounts.get(name)
        && (account.uid != uid || account.owner != Some(tenant.owner))
    {
        let why = format!("it has uid {} and another owner", account.uid);
        return Err(Error::UserRefused {
            name: name.to_owned(),
            why,
        });
    }
    match state
        .accounts
        .iter()
        .find(|(other, account)| account.uid == uid && *other != name)
    {
        Some((holder, _)) => Err(Error::UidRefused {
            uid,
            holder: holder.clone(),
        }),
        None => Ok(()),
    }
}

fn absent(state: &State, tenant: &Tenant) -> Absent {
    let (name, uid) = (tenant.name.as_str(), tenant.uid.get());
    let no = |kind| !state.has(uid, kind);
    Absent {
        user: !state.accounts.contains_key(name) && !state.accounts.values().any(|a| a.uid == uid),
        home: !state.homes.contains_key(name),
        keys: !state.keys.contains_key(name),
        cron: no(Leftover::Cron),
        at: no(Leftover::At),
        linger: no(Leftover::Linger),
        processes: no(Leftover::Process),
        files: no(Leftover::File) && !state.homes.values().any(|owner| *owner == uid),
        ipc: no(Leftover::Ipc),
    }
}

fn forget_if_absent(state: &mut State, tenant: &Tenant) {
    if absent(state, tenant).left().is_empty() && is_recorded(state, tenant) {
        state.records.remove(&tenant.uid.get());
    }
}

fn is_recorded(state: &State, tenant: &Tenant) -> bool {
    let record = state.records.get(&tenant.uid.get());
    record.is_some_and(|(name, owner)| *name == tenant.name.as_str() && *owner == tenant.owner)
}

/// As on the real machine: by a record, or by the account's own mark.
fn is_shown_ours(state: &State, tenant: &Tenant) -> Result<bool> {
    refuse_foreign(state, tenant)?;
    let uid = tenant.uid.get();
    match state.records.get(&uid) {
        Some((_, owner)) if !is_recorded(state, tenant) => Err(Error::UidRefused {
            uid,
            holder: format!("{owner}, whose absence has not been proved"),
        }),
        Some(_) => Ok(true),
        None => Ok(state.accounts.contains_key(tenant.name.as_str())),
    }
}

fn may_touch(state: &State, tenant: &Tenant, kinds: &[Leftover]) -> Result<()> {
    if is_shown_ours(state, tenant)? {
        return Ok(());
    }
    let uid = tenant.uid.get();
    match kinds.iter().find(|kind| state.has(uid, **kind)) {
        Some(kind) => Err(Error::UidRefused {
            uid,
            holder: format!("{kind:?}").to_lowercase(),
        }),
        None => Ok(()),
    }
}

fn claim(state: &mut State, tenant: &Tenant) -> Result<()> {
    if !is_shown_ours(state, tenant)? {
        may_touch(state, tenant, &[Leftover::Process, Leftover::Ipc, Leftover::File])?;
        let record = (tenant.name.to_string(), tenant.owner);
        state.records.insert(tenant.uid.get(), record);
    }
    Ok(())
}
