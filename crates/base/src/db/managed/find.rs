//! Finds PostgreSQL's programs: where the operator says, else on PATH, else where Debian keeps them. A directory
//! counts only if it has all three; PATH may link `postgres` alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ManagedError;
use crate::config;

const OLDEST: u32 = 14;

/// Where to look.
#[derive(Clone, Debug)]
pub struct Search {
    /// The operator's word; nothing else is looked at then.
    pub bin_dir: Option<PathBuf>,
    pub path: Vec<PathBuf>,
    /// One directory per major version, each with `bin`.
    pub lib: PathBuf,
}

impl Search {
    pub fn system(bin_dir: Option<PathBuf>) -> Self {
        Self {
            bin_dir,
            path: config::search_path(),
            lib: "/usr/lib/postgresql".into(),
        }
    }

    fn candidates(&self) -> Vec<PathBuf> {
        if let Some(dir) = &self.bin_dir {
            return vec![dir.clone()];
        }
        // A link on PATH leads to the directory where its siblings are.
        let on_path = self
            .path
            .iter()
            .filter_map(|dir| dir.join("postgres").canonicalize().ok()?.parent().map(Path::to_owned));
        let versions = std::fs::read_dir(&self.lib)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path().join("bin"));
        on_path.chain(versions).collect()
    }

    /// A program of the system by name, for `setpriv`.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let usual = ["/usr/bin", "/bin"].map(PathBuf::from);
        self.path
            .iter()
            .chain(&usual)
            .map(|dir| dir.join(name))
            .find(|path| path.is_file())
    }
}

#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) dir: PathBuf,
    pub(super) major: u32,
}

impl Programs {
    /// The programs for data of major version `data` (none: new data, the newest programs).
    pub(super) fn find(search: &Search, data: Option<&str>, dir: &Path) -> Result<Self, ManagedError> {
        // PATH and the usual place may name the same directory.
        let candidates: BTreeSet<PathBuf> = search.candidates().into_iter().collect();
        let mut found: Vec<Programs> = candidates.iter().filter_map(|dir| look(dir)).collect();
        found.retain(|programs| programs.major >= OLDEST);
        found.sort_by_key(|programs| std::cmp::Reverse(programs.major));
        let Some(newest) = found.first() else {
            return Err(ManagedError::Missing);
        };
        let Some(data) = data else { return Ok(newest.clone()) };
        found
            .iter()
            .find(|programs| programs.major.to_string() == data)
            .cloned()
            .ok_or_else(|| ManagedError::MajorMismatch {
                dir: dir.display().to_string(),
                data: data.to_owned(),
                programs: found
                    .iter()
                    .map(|programs| programs.major.to_string())
                    .collect::<Vec<_>>()
                    .join(" and "),
            })
    }
}

fn look(dir: &Path) -> Option<Programs> {
    let complete = ["postgres", "initdb", "pg_ctl"]
        .iter()
        .all(|name| dir.join(name).is_file());
    if !complete {
        return None;
    }
    let major = major_of(&dir.join("postgres"))?;
    Some(Programs {
        dir: dir.to_owned(),
        major,
    })
}

/// From `postgres (PostgreSQL) 15.18 (Debian …)`.
#[expect(
    clippy::disallowed_methods,
    reason = "asks the PostgreSQL that was found for its version"
)]
fn major_of(postgres: &Path) -> Option<u32> {
    let output = Command::new(postgres).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.split_whitespace().nth(2)?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
