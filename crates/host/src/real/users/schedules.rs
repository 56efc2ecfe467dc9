//! What would start something in a tenant's name later: cron tables and linger marks go by name, at jobs by owner.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::Users;
use crate::error::Doing;
use crate::{Error, Result, Tenant};

/// Debian's places and Red Hat's.
const CRON: [&str; 2] = ["var/spool/cron/crontabs", "var/spool/cron"];
const AT: [&str; 3] = ["var/spool/cron/atjobs", "var/spool/cron/atspool", "var/spool/at"];
const LINGER: [&str; 1] = ["var/lib/systemd/linger"];

impl Users {
    pub(super) fn remove_schedules(&self, tenant: &Tenant) -> Result<()> {
        let mut paths = self.named(&CRON, tenant)?;
        paths.extend(self.named(&LINGER, tenant)?);
        paths.extend(self.owned(&AT, tenant)?);
        for path in paths {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).doing(|| format!("remove {}", path.display()));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Whether there is a cron table, an at job, a linger mark.
    pub(super) fn find_schedules(&self, tenant: &Tenant) -> Result<(bool, bool, bool)> {
        let any = |paths: Vec<PathBuf>| !paths.is_empty();
        Ok((
            any(self.named(&CRON, tenant)?),
            any(self.owned(&AT, tenant)?),
            any(self.named(&LINGER, tenant)?),
        ))
    }

    fn named(&self, dirs: &[&str], tenant: &Tenant) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for dir in dirs {
            let path = self.path(dir).join(tenant.name.as_str());
            match fs::symlink_metadata(&path) {
                Ok(_) => found.push(path),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(source) => {
                    return Err(Error::Io {
                        doing: format!("look at {}", path.display()),
                        source,
                    });
                }
            }
        }
        Ok(found)
    }

    fn owned(&self, dirs: &[&str], tenant: &Tenant) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for dir in dirs {
            let path = self.path(dir);
            let entries = match fs::read_dir(&path) {
                Ok(entries) => entries,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
                Err(source) => {
                    return Err(Error::Io {
                        doing: format!("list {}", path.display()),
                        source,
                    });
                }
            };
            for entry in entries {
                let path = entry.doing(|| format!("list {}", path.display()))?.path();
                // One that is gone by now needs no removal.
                if fs::symlink_metadata(&path).is_ok_and(|meta| meta.uid() == tenant.uid.get()) {
                    found.push(path);
                }
            }
        }
        Ok(found)
    }
}
