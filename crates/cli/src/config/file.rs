//! `config.toml`: profiles, each a server with a few habits. An unknown key is an error that names it, because a
//! setting that is silently ignored is worse than none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Source, Sourced};
use crate::failure::Failure;
use crate::output::Format;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    profile: BTreeMap<String, Profile>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profile {
    pub(super) url: Option<String>,
    /// PEM: the CA of a server whose certificate no public CA has signed.
    pub(super) ca_file: Option<PathBuf>,
    pub(super) output: Option<Format>,
    /// An id or a name.
    pub(super) project: Option<String>,
}

pub(super) fn read(dir: &Path) -> Result<File, Failure> {
    let path = dir.join("config.toml");
    match std::fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).map_err(|error| {
            let line = error
                .span()
                .and_then(|span| Some(text.get(..span.start)?.matches('\n').count() + 1));
            let at = line.map(|line| format!(":{line}")).unwrap_or_default();
            Failure::config(format!("{}{at}: {}", path.display(), error.message()))
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(File::default()),
        Err(error) => Err(Failure::config(format!("cannot read {}: {error}", path.display()))),
    }
}

impl File {
    /// The chosen profile. The default one need not exist, nor one that somebody is or gets logged in as: then its login
    /// says which server it is.
    pub(super) fn profile(&self, name: &Sourced<String>, logins: &[String], login: bool) -> Result<Profile, Failure> {
        match self.profile.get(&name.value) {
            Some(profile) => Ok(profile.clone()),
            None if name.from == Source::Default || login || logins.contains(&name.value) => Ok(Profile::default()),
            None => {
                let known: BTreeSet<&str> = self.profile.keys().chain(logins).map(String::as_str).collect();
                let known: Vec<&str> = known.into_iter().collect();
                let known = if known.is_empty() {
                    "there are none".to_owned()
                } else {
                    format!("there are {}", known.join(", "))
                };
                Err(
                    Failure::config(format!("no profile {:?} (from {}); {known}", name.value, name.from))
                        .hint(format!("gpuaas auth login --profile {} --url URL makes it", name.value)),
                )
            }
        }
    }
}
