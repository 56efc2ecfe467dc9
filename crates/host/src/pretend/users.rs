//! The pretend side of [`Users`]. Refuses what the real one refuses.

use model::task::deprovision_user::Absent;
use model::task::provision_user::Verified;
use model::value::SshKey;

use super::state::{Account, Leftover, State};
use super::{Pretend, Profile};
use crate::{Error, Result, Tenant, Users};

impl Users for Pretend {
    fn refuse_foreign(&self, tenant: &Tenant) -> Result<()> {
        self.call("refuse_foreign", |_, state| refuse_foreign(state, tenant))
    }

    fn ensure_account(&self, tenant: &Tenant, gpu_access: bool) -> Result<()> {
        self.call("ensure_account", |_, state| {
            refuse_foreign(state, tenant)?;
            let account = account(tenant, gpu_access);
            state.accounts.insert(tenant.name.to_string(), account);
            Ok(())
        })
    }

    fn ensure_no_account(&self, tenant: &Tenant) -> Result<()> {
        self.call("ensure_no_account", |_, state| {
            if refuse_foreign(state, tenant).is_ok() {
                state.remove(tenant.uid.get(), Leftover::Process);
                state.accounts.remove(tenant.name.as_str());
            }
            Ok(())
        })
    }

    fn ensure_home(&self, tenant: &Tenant) -> Result<String> {
        self.call("ensure_home", |_, state| {
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
        self.call("ensure_no_home", |_, state| {
            if state.homes.get(tenant.name.as_str()) == Some(&tenant.uid.get()) {
                state.homes.remove(tenant.name.as_str());
                state.keys.remove(tenant.name.as_str());
            }
            Ok(())
        })
    }

    fn ensure_keys(&self, tenant: &Tenant, keys: &[SshKey]) -> Result<()> {
        self.call("ensure_keys", |_, state| {
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
        self.call("ensure_no_keys", |_, state| {
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
        self.call("ensure_locked", |_, state| {
            refuse_foreign(state, tenant)?;
            if let Some(account) = state.accounts.get_mut(tenant.name.as_str()) {
                account.locked = true;
            }
            Ok(())
        })
    }

    fn ensure_no_schedules(&self, tenant: &Tenant) -> Result<()> {
        self.call("ensure_no_schedules", |_, state| {
            refuse_foreign(state, tenant)?;
            for kind in [Leftover::Cron, Leftover::At, Leftover::Linger] {
                state.remove(tenant.uid.get(), kind);
            }
            Ok(())
        })
    }

    fn ensure_no_processes(&self, tenant: &Tenant) -> Result<u32> {
        self.call("ensure_no_processes", |_, state| {
            refuse_foreign(state, tenant)?;
            Ok(u32::from(state.remove(tenant.uid.get(), Leftover::Process)))
        })
    }

    fn ensure_no_files(&self, tenant: &Tenant) -> Result<()> {
        self.call("ensure_no_files", |_, state| {
            refuse_foreign(state, tenant)?;
            state.remove(tenant.uid.get(), Leftover::File);
            if state.homes.get(tenant.name.as_str()) == Some(&tenant.uid.get()) {
                state.homes.remove(tenant.name.as_str());
                state.keys.remove(tenant.name.as_str());
            }
            Ok(())
        })
    }

    fn ensure_no_ipc(&self, tenant: &Tenant) -> Result<()> {
        self.call("ensure_no_ipc", |_, state| {
            refuse_foreign(state, tenant)?;
            state.remove(tenant.uid.get(), Leftover::Ipc);
            Ok(())
        })
    }

    fn absent(&self, tenant: &Tenant) -> Result<Absent> {
        self.call("absent", |_: &Profile, state| {
            let (name, uid) = (tenant.name.as_str(), tenant.uid.get());
            let no = |kind| !state.has(uid, kind);
            Ok(Absent {
                user: !state.accounts.contains_key(name) && !state.accounts.values().any(|a| a.uid == uid),
                home: !state.homes.contains_key(name),
                keys: !state.keys.contains_key(name),
                cron: no(Leftover::Cron),
                at: no(Leftover::At),
                linger: no(Leftover::Linger),
                processes: no(Leftover::Process),
                files: no(Leftover::File) && !state.homes.values().any(|owner| *owner == uid),
                ipc: no(Leftover::Ipc),
            })
        })
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
