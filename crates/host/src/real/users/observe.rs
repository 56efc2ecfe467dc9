//! What the account files say about one tenant, all of them, because a killed tool leaves some lines and not others.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;

use super::Users;
use crate::{Error, Result, Tenant};

pub(super) const GPU_GROUPS: [&str; 2] = ["render", "video"];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) passwd: Option<Passwd>,
    pub(super) shadow: Option<Shadow>,
    /// The gid of the group with the tenant's name.
    pub(super) group: Option<u32>,
    pub(super) gshadow: bool,
    /// Ranges of subordinate ids. We never give any: what they own would outlive the account.
    pub(super) subids: bool,
    /// Groups that list the name as a member.
    pub(super) groups: BTreeSet<String>,
    uid_holder: Option<String>,
    gid_holder: Option<String>,
    pub(super) gpu_groups_missing: Vec<&'static str>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passwd {
    pub(super) uid: u32,
    gid: u32,
    gecos: String,
    home: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shadow {
    pub(super) password: String,
    pub(super) expires: String,
}

/// What marks an account as ours: the full name in its comment, which only root may change.
pub(super) fn mark(tenant: &Tenant) -> String {
    format!("gpuaas {}", tenant.owner)
}

pub(super) fn home_path(tenant: &Tenant) -> String {
    format!("/home/{}", tenant.name)
}

impl Users {
    pub(super) fn observe(&self, tenant: &Tenant) -> Result<Seen> {
        let (name, id) = (tenant.name.as_str(), tenant.uid.get());
        let mut seen = Seen {
            gpu_groups_missing: GPU_GROUPS.to_vec(),
            ..Seen::default()
        };
        for line in self.account_lines("etc/passwd", 7)? {
            let uid = number(&line[2]);
            if line[0] == name {
                let (gid, gecos, home) = (number(&line[3]), line[4].clone(), line[5].clone());
                seen.passwd = Some(Passwd { uid, gid, gecos, home });
            } else if uid == id {
                seen.uid_holder = Some(line[0].clone());
            }
        }
        for line in self.account_lines("etc/shadow", 8)? {
            if line[0] == name {
                seen.shadow = Some(Shadow {
                    password: line[1].clone(),
                    expires: line[7].clone(),
                });
            }
        }
        for line in self.account_lines("etc/group", 4)? {
            let gid = number(&line[2]);
            if line[0] == name {
                seen.group = Some(gid);
            } else if gid == id {
                seen.gid_holder = Some(line[0].clone());
            }
            seen.gpu_groups_missing.retain(|group| *group != line[0]);
            seen.note_member(name, &line[0], &line[3]);
        }
        for line in self.account_lines("etc/gshadow", 4)? {
            seen.gshadow |= line[0] == name;
            seen.note_member(name, &line[0], &line[2]);
            seen.note_member(name, &line[0], &line[3]);
        }
        for path in ["etc/subuid", "etc/subgid"] {
            let lines = self.account_lines(path, 3)?;
            seen.subids |= lines.iter().any(|line| line[0] == name || number(&line[0]) == id);
        }
        Ok(seen)
    }

    /// The lines that have at least `fields` fields; a file that is not there has none.
    fn account_lines(&self, path: &str, fields: usize) -> Result<Vec<Vec<String>>> {
        let path = self.path(path);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => {
                return Err(Error::Io {
                    doing: format!("read {}", path.display()),
                    source,
                });
            }
        };
        let text = String::from_utf8_lossy(&bytes);
        let lines = text
            .lines()
            .map(|line| line.split(':').map(str::to_owned).collect::<Vec<_>>());
        Ok(lines.filter(|line| line.len() >= fields).collect())
    }
}

impl Seen {
    fn note_member(&mut self, name: &str, group: &str, members: &str) {
        if members.split(',').any(|member| member == name) {
            self.groups.insert(group.to_owned());
        }
    }

    pub(super) fn refuse_foreign(&self, tenant: &Tenant) -> Result<()> {
        let uid = tenant.uid.get();
        let refused = |why: String| {
            Err(Error::UserRefused {
                name: tenant.name.to_string(),
                why,
            })
        };
        if let Some(passwd) = &self.passwd {
            if passwd.uid != uid {
                return refused(format!("it has uid {}", passwd.uid));
            }
            // The fields after the first comma are the tenant's to change.
            if passwd.gecos.split(',').next() != Some(mark(tenant).as_str()) {
                return refused("it is not marked as this allocation's".to_owned());
            }
        }
        if let Some(holder) = self.uid_holder.as_ref().or(self.gid_holder.as_ref()) {
            return Err(Error::UidRefused {
                uid,
                holder: holder.clone(),
            });
        }
        match self.group {
            Some(gid) if gid != uid => refused(format!("there is a group of that name with gid {gid}")),
            Some(_) | None => Ok(()),
        }
    }

    /// Every line is there, except perhaps what `usermod` can set.
    pub(super) fn can_be_mended(&self, tenant: &Tenant) -> bool {
        let uid = tenant.uid.get();
        let base = self
            .passwd
            .as_ref()
            .is_some_and(|p| p.uid == uid && p.gid == uid && p.home == home_path(tenant));
        base && self.group == Some(uid) && self.gshadow && !self.subids
    }

    pub(super) fn is_whole(&self, tenant: &Tenant, gpu_access: bool) -> bool {
        let open = self
            .shadow
            .as_ref()
            .is_some_and(|shadow| shadow.password == "*" && shadow.expires.is_empty());
        let groups = if gpu_access { &GPU_GROUPS[..] } else { &[] };
        let groups_fit = self.groups.iter().map(String::as_str).eq(groups.iter().copied());
        self.refuse_foreign(tenant).is_ok() && self.can_be_mended(tenant) && open && groups_fit
    }

    /// No file has a line of that name, uid or gid.
    pub(super) fn is_nothing(&self) -> bool {
        let Seen {
            passwd,
            shadow,
            group,
            gshadow,
            subids,
            groups,
            uid_holder,
            gid_holder,
            ..
        } = self;
        let none = passwd.is_none() && shadow.is_none() && group.is_none() && groups.is_empty();
        none && !gshadow && !subids && uid_holder.is_none() && gid_holder.is_none()
    }
}

/// Ids that do not parse match nobody.
fn number(text: &str) -> u32 {
    text.parse().unwrap_or(u32::MAX)
}
