//! What we have promised to take away again: one small file per uid, durable before the first line of an account is
//! written and removed only when absence is proved. An account line says that a uid is ours; when that line is gone
//! this file still does. Without either, nothing of a uid is touched.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use model::id::AllocationId;
use model::time::Timestamp;
use model::value::{Name, Uid};
use serde::{Deserialize, Serialize};

use super::Users;
use super::deadline::Deadline;
use super::observe::Seen;
use crate::error::Doing;
use crate::{Error, Resident, Result, Tenant};

const DIR: &str = "var/lib/gpuaas/executor/users";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) uid: Uid,
    pub(super) name: Name,
    pub(super) allocation: AllocationId,
    /// Somebody could log in: before that, an account without lines has left nothing.
    pub(super) opened: bool,
}

impl Record {
    fn is_of(&self, tenant: &Tenant) -> bool {
        self.uid == tenant.uid && self.name == tenant.name && self.allocation == tenant.owner
    }

    fn tenant(&self) -> Tenant {
        Tenant {
            name: self.name.clone(),
            uid: self.uid,
            owner: self.allocation,
        }
    }
}

impl Users {
    /// Refuses what belongs to somebody else; otherwise says whether we can show that the uid is this tenant's.
    pub(super) fn is_shown_ours(&self, tenant: &Tenant, seen: &Seen) -> Result<bool> {
        seen.refuse_foreign(tenant)?;
        match self.record(tenant.uid)? {
            Some(record) if !record.is_of(tenant) => Err(holds(&record)),
            Some(_) => Ok(true),
            None => Ok(seen.passwd.is_some()),
        }
    }

    /// Verbs that go by name also undo what was refused: to them somebody else's is nothing to do.
    pub(super) fn leaves_alone(&self, tenant: &Tenant, seen: &Seen) -> Result<bool> {
        match self.is_shown_ours(tenant, seen) {
            Err(Error::UserRefused { .. } | Error::UidRefused { .. }) => Ok(true),
            ours => ours.map(|ours| !ours),
        }
    }

    /// Before an account is made. A uid that has left traces on the host is somebody's, whatever the account files say.
    pub(super) fn claim(&self, tenant: &Tenant, seen: &Seen, deadline: Deadline) -> Result<()> {
        match self.record(tenant.uid)? {
            Some(record) if record.is_of(tenant) => return Ok(()),
            Some(record) => {
                let (absent, _) = self.look(&record.tenant())?;
                if !absent.left().is_empty() {
                    return Err(holds(&record));
                }
            }
            None => {}
        }
        if seen.passwd.is_none() {
            if !seen.is_nothing() {
                let why = "some account file has a line of that name, and it is not ours".to_owned();
                let name = tenant.name.to_string();
                return Err(Error::UserRefused { name, why });
            }
            self.refuse_traces(tenant, deadline)?;
        }
        self.keep_record(tenant, false)
    }

    fn refuse_traces(&self, tenant: &Tenant, deadline: Deadline) -> Result<()> {
        let uid = tenant.uid.get();
        let processes = self
            .find_processes(uid)?
            .into_iter()
            .map(|pid| format!("process {pid}"));
        let mut traces = processes.chain(self.find_ipc(uid)?);
        let found = match traces.next() {
            Some(trace) => Some(trace),
            None => self.find_files_in_the_open(uid, deadline)?.into_iter().next(),
        };
        found.map_or(Ok(()), |holder| Err(Error::UidRefused { uid, holder }))
    }

    /// Somebody will be able to log in from now on.
    pub(super) fn note_opened(&self, tenant: &Tenant) -> Result<()> {
        match self.record(tenant.uid)? {
            Some(record) if record.opened && record.is_of(tenant) => Ok(()),
            Some(record) if !record.is_of(tenant) => Err(holds(&record)),
            Some(_) | None => self.keep_record(tenant, true),
        }
    }

    /// Its account is gone, and nobody has ever been in it.
    pub(super) fn forget_unopened(&self, tenant: &Tenant) -> Result<()> {
        match self.record(tenant.uid)? {
            Some(record) if record.is_of(tenant) && !record.opened => self.remove_record(tenant),
            Some(_) | None => Ok(()),
        }
    }

    /// Absence is proved.
    pub(super) fn forget(&self, tenant: &Tenant) -> Result<()> {
        match self.record(tenant.uid)? {
            Some(record) if record.is_of(tenant) => self.remove_record(tenant),
            Some(_) | None => Ok(()),
        }
    }

    /// Everybody who is written down. A draft that a killed writer left is nobody yet.
    pub(super) fn all_residents(&self) -> Result<Vec<Resident>> {
        let dir = self.path(DIR);
        let listing = || format!("list {}", dir.display());
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).doing(listing),
        };
        let mut residents = Vec::new();
        for entry in entries {
            let entry = entry.doing(listing)?;
            let name = entry.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_suffix(".json")?.parse::<u32>().ok());
            let Some(uid) = number.and_then(|number| Uid::try_from(number).ok()) else {
                continue;
            };
            let Some(record) = self.record(uid)? else { continue };
            // It is written once more when the account opens, and never after that.
            let written = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            let since = written.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let since = since.and_then(|since| i64::try_from(since.as_millis()).ok());
            let tenant = record.tenant();
            let account = self.observe(&tenant)?.passwd;
            residents.push(Resident {
                has_account: account.is_some_and(|account| account.uid == uid.get()),
                tenant,
                since: since.filter(|_| record.opened).map(Timestamp::from_millis),
            });
        }
        residents.sort_by_key(|resident| resident.tenant.uid);
        Ok(residents)
    }

    fn record_path(&self, uid: Uid) -> PathBuf {
        self.path(DIR).join(format!("{uid}.json"))
    }

    fn record(&self, uid: Uid) -> Result<Option<Record>> {
        let path = self.record_path(uid);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).doing(|| format!("read {}", path.display())),
        };
        let record: Option<Record> = serde_json::from_slice(&bytes).ok();
        match record.filter(|record| record.uid == uid) {
            Some(record) => Ok(Some(record)),
            None => Err(Error::Unreadable {
                path: path.display().to_string(),
                why: "it does not say whose the uid is",
            }),
        }
    }

    fn keep_record(&self, tenant: &Tenant, opened: bool) -> Result<()> {
        let record = Record {
            uid: tenant.uid,
            name: tenant.name.clone(),
            allocation: tenant.owner,
            opened,
        };
        let (dir, path) = (self.path(DIR), self.record_path(tenant.uid));
        let write = || {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
            let draft = dir.join(format!("{}.new", tenant.uid));
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&draft)?;
            file.write_all(&serde_json::to_vec(&record)?)?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            for dir in dir.ancestors().take(2) {
                File::open(dir)?.sync_all()?;
            }
            Ok::<_, std::io::Error>(())
        };
        write().doing(|| format!("write {}", path.display()))
    }

    fn remove_record(&self, tenant: &Tenant) -> Result<()> {
        let path = self.record_path(tenant.uid);
        let removed = fs::remove_file(&path).and_then(|()| File::open(self.path(DIR))?.sync_all());
        removed.doing(|| format!("remove {}", path.display()))
    }
}

fn holds(record: &Record) -> Error {
    Error::UidRefused {
        uid: record.uid.get(),
        holder: format!("{}, whose absence has not been proved", record.allocation),
    }
}
