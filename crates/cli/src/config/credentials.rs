//! `credentials.toml`: tokens by profile, each with the server it belongs to, in a file that only its owner can read.
//! Refuses a file that others can read, and writes by rename, so that a crash leaves the old one.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use model::signal::Code;
use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure};
use crate::secret::Secret;

pub(crate) struct Credentials {
    dir: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    pub(crate) url: String,
    pub(crate) token: Secret,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    profile: BTreeMap<String, Login>,
}

impl Credentials {
    pub(crate) fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.join("credentials.toml")
    }

    /// Those that somebody is logged in as.
    pub(crate) fn profiles(&self) -> Result<Vec<String>, Failure> {
        Ok(self.load()?.profile.into_keys().collect())
    }

    pub(crate) fn read(&self, profile: &str) -> Result<Option<Login>, Failure> {
        Ok(self.load()?.profile.remove(profile))
    }

    pub(crate) fn keep(&self, profile: &str, url: &str, token: Secret) -> Result<(), Failure> {
        let mut file = self.load()?;
        file.profile.insert(
            profile.to_owned(),
            Login {
                url: url.to_owned(),
                token,
            },
        );
        self.store(&file)
    }

    /// True if there was something to forget.
    pub(crate) fn forget(&self, profile: &str) -> Result<bool, Failure> {
        let mut file = self.load()?;
        let there = file.profile.remove(profile).is_some();
        if there {
            self.store(&file)?;
        }
        Ok(there)
    }

    fn load(&self) -> Result<File, Failure> {
        let path = self.path();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(File::default()),
            Err(error) => return Err(self.failed("read", &error)),
        };
        let mode = std::fs::metadata(&path)
            .map_err(|error| self.failed("read", &error))?
            .permissions()
            .mode();
        if mode & 0o077 != 0 {
            return Err(Failure::config(format!("{} can be read by others", path.display()))
                .hint(format!("chmod 600 {}", path.display())));
        }
        // The parser's message could quote a token; the place is enough.
        toml::from_str(&text)
            .map_err(|_| Failure::config(format!("{} is damaged", path.display())).hint("remove it and log in again"))
    }

    fn store(&self, file: &File) -> Result<(), Failure> {
        let text = toml::to_string(file).map_err(|_| Failure::config("the token cannot be written as TOML"))?;
        std::fs::create_dir_all(&self.dir).map_err(|error| self.failed("write", &error))?;
        let fresh = self.dir.join(format!(".credentials.{}", uuid::Uuid::new_v4().simple()));
        let write = || {
            let mut to = std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&fresh)?;
            to.write_all(text.as_bytes())?;
            to.sync_all()?;
            std::fs::rename(&fresh, self.path())
        };
        write().map_err(|error| match std::fs::remove_file(&fresh) {
            Err(left) if left.kind() != std::io::ErrorKind::NotFound => self
                .failed("write", &error)
                .hint(format!("also remove {}", fresh.display())),
            _ => self.failed("write", &error),
        })
    }

    fn failed(&self, what: &str, error: &std::io::Error) -> Failure {
        Failure::new(
            Exit::Error,
            Code::ConfigInvalid,
            format!("cannot {what} {}: {error}", self.path().display()),
        )
    }
}
