//! What would start something in a tenant's name later: cron tables and linger marks go by name, at jobs by owner.
//! Only plain files are any of these; a tenant may be called like a directory of the spool.

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
        for path in self.schedules(tenant)? {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).doing(|| format!("remove {}", path.display()));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    pub(super) fn list_schedules(&self, tenant: &Tenant) -> Result<Vec<String>> {
        let paths = self.schedules(tenant)?.into_iter();
        Ok(paths.map(|path| path.display().to_string()).collect())
    }

    fn schedules(&self, tenant: &Tenant) -> Result<Vec<PathBuf>> {
        let mut paths = self.named(&CRON, tenant)?;
        paths.extend(self.named(&LINGER, tenant)?);
        paths.extend(self.owned(&AT, tenant)?);
        Ok(paths)
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
                Ok(meta) if meta.is_file() => found.push(path),
                // A directory of the host, such as `crontabs` itself; nothing reads a table from it.
                Ok(_) => {}
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
                match fs::symlink_metadata(&path) {
                    Ok(meta) if meta.is_file() && meta.uid() == tenant.uid.get() => found.push(path),
                    Ok(_) => {}
                    // One that is gone by now needs no removal.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error).doing(|| format!("look at {}", path.display())),
                }
            }
        }
        Ok(found)
    }
}
