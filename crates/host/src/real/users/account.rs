//! Making, locking and removing the lines of an account, by the shadow tools. Each round looks at all files and makes
//! one move towards the goal, so that any half account is a starting point.

use std::fs::File;
use std::time::Duration;

use super::Users;
use super::deadline::Deadline;
use super::observe::{GPU_GROUPS, Seen, home_path, mark};
use crate::real::command::Program;
use crate::{Error, Result, Tenant};

const LIMIT: Duration = Duration::from_secs(30);
/// More than any half account needs.
const ROUNDS: usize = 8;

impl Users {
    pub(super) fn make_account(&self, tenant: &Tenant, gpu_access: bool) -> Result<()> {
        let lock = self.lock()?;
        for _ in 0..ROUNDS {
            let seen = self.observe(tenant)?;
            seen.refuse_foreign(tenant)?;
            if let Some(group) = seen.gpu_groups_missing.first().filter(|_| gpu_access) {
                return Err(Error::GroupMissing { group });
            }
            self.claim(tenant, &seen, Deadline::within(LIMIT, "looking for traces of the uid"))?;
            if seen.is_whole(tenant, gpu_access) {
                return Ok(());
            } else if seen.can_be_mended(tenant) {
                let groups = if gpu_access {
                    GPU_GROUPS.join(",")
                } else {
                    String::new()
                };
                self.tool(
                    Program::Usermod,
                    &["-p", "*", "-e", "", "-G", &groups, tenant.name.as_str()],
                    &lock,
                )?;
            } else if seen.passwd.is_some() {
                self.tool(Program::Userdel, &[tenant.name.as_str()], &lock)?;
            } else {
                self.add(tenant, &seen, &lock)?;
            }
        }
        Err(Error::Unreadable {
            path: "/etc/passwd".to_owned(),
            why: "the account does not become whole",
        })
    }

    pub(super) fn remove_account(&self, tenant: &Tenant) -> Result<()> {
        let lock = self.lock()?;
        for _ in 0..ROUNDS {
            let seen = self.observe(tenant)?;
            if seen.is_nothing() {
                return self.forget_unopened(tenant);
            } else if self.leaves_alone(tenant, &seen)? {
                return Ok(());
            } else if seen.passwd.is_some() {
                self.expire(tenant, &lock)?;
                self.kill_processes(tenant.uid.get(), Deadline::within(LIMIT, "killing processes"))?;
                self.tool(Program::Userdel, &[tenant.name.as_str()], &lock)?;
            } else if seen.shadow.is_some() || seen.subids || !seen.groups.is_empty() {
                // Only userdel removes these lines, and it wants a whole account.
                self.add(tenant, &seen, &lock)?;
            } else if seen.group.is_some() {
                self.tool(Program::Groupdel, &[tenant.name.as_str()], &lock)?;
            } else {
                self.add_group(tenant, &lock)?;
            }
        }
        Err(Error::Unreadable {
            path: "/etc/passwd".to_owned(),
            why: "the account does not go away",
        })
    }

    pub(super) fn lock_account(&self, tenant: &Tenant) -> Result<()> {
        let lock = self.lock()?;
        let seen = self.observe(tenant)?;
        seen.refuse_foreign(tenant)?;
        if seen.passwd.is_some() {
            self.expire(tenant, &lock)
        } else {
            Ok(())
        }
    }

    /// Expired as well as locked: an expired account gets no session, no cron and no at, whatever its keys say.
    fn expire(&self, tenant: &Tenant, lock: &File) -> Result<()> {
        self.tool(Program::Usermod, &["-L", "-e", "1", tenant.name.as_str()], lock)
    }

    fn add(&self, tenant: &Tenant, seen: &Seen, lock: &File) -> Result<()> {
        let (name, uid) = (tenant.name.as_str(), tenant.uid.to_string());
        match (seen.group, seen.gshadow) {
            (Some(_), true) => {}
            (None, _) => self.add_group(tenant, lock)?,
            (Some(_), false) => {
                self.tool(Program::Groupdel, &[name], lock)?;
                self.add_group(tenant, lock)?;
            }
        }
        let (home, mark) = (home_path(tenant), mark(tenant));
        // "*" is no password and not locked: some sshd configurations refuse keys of locked accounts.
        let account = [
            "-M",
            "-N",
            "-u",
            &uid,
            "-g",
            &uid,
            "-d",
            &home,
            "-s",
            "/bin/bash",
            "-c",
            &mark,
            "-p",
            "*",
        ];
        let no_subids = ["-K", "SUB_UID_COUNT=0", "-K", "SUB_GID_COUNT=0"];
        let args = [&account[..], &no_subids[..], &[name][..]].concat();
        let ended = self.commands.run(Program::Useradd, &args, Some(lock), LIMIT)?;
        // Names and uids that are in no file: a directory service has them.
        match ended.code() {
            Some(9) => Err(Error::UserRefused {
                name: name.to_owned(),
                why: "the host knows it already".to_owned(),
            }),
            Some(4) => Err(Error::UidRefused {
                uid: tenant.uid.get(),
                holder: "an account of the host".to_owned(),
            }),
            Some(_) | None => ended.ok(),
        }
    }

    fn add_group(&self, tenant: &Tenant, lock: &File) -> Result<()> {
        self.tool(
            Program::Groupadd,
            &["-g", &tenant.uid.to_string(), tenant.name.as_str()],
            lock,
        )
    }

    fn tool(&self, program: Program, args: &[&str], lock: &File) -> Result<()> {
        self.commands.run(program, args, Some(lock), LIMIT)?.ok()
    }
}
